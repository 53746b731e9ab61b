"""The web service: `fcxplain serve`, for a case worker together with an applicant.

In the order of a request: `app` assembles everything; `trust` admits or refuses the request; `sessions` identifies
the browser; `people` and `wishes` hold who it is about and within which limits; `answers` passes the question to a
`worker`, a separate process with the explainer; `pages` and `api` show the result; `receipts` signs it and `store`
saves it. `load` measures all of this with many people at once.
"""
