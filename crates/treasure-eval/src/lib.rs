//! Experiments: presets, run store, metrics, statistics, tables, plots and the report.
