//! Rewards: rules, classifiers, scorers, remote judges, and their composition.
