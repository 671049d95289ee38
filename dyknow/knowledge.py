"""The date a model answers from, estimated by likelihood from the validity of the entities it names."""
