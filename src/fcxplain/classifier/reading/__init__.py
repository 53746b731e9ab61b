"""Models read as numbers, to guide the search and to make proofs; a kind is one function.

- `networks.read_network`: torch modules of linear layers with ReLUs between them;
- `trees.read_trees`: tree ensembles; `ensembles.READERS` names the function for each class of scikit-learn, XGBoost and
  LightGBM.
"""
