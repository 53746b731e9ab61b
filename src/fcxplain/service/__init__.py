"""The page that answers: `fcxplain serve`, for a case worker with a person in front of them, and for that person.

In the order in which a question meets them: `app` puts the rest together; `trust` lets a request in or not;
`sessions` knows who asks; `people` and `wishes` say about whom and within which limits; `answers` hands the question to
a `worker`, a process of its own that holds the explainer; `pages` and `api` show what comes back; `receipts` signs and
`store` keeps it. `load` measures all that with many people at once.
"""
