"""Where candidates come from: each file proposes, nothing here decides."""
