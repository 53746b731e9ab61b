"""The web service: `fcxplain serve`, for a case worker together with an applicant.

In the order of a request: `app` assembles everything; `trust` admits or refuses the request; `people` holds who it is
about, within which limits, and which browser asks; `answers` passes the question to a `worker`, a separate process with
the explainer; `pages` and `api` show the result; `receipts` signs and stores it. `load` measures all of this with many
people at once.
"""
