//! Which denoiser, and how to read it.

use clap::Args;

/// The denoiser and how to load it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Model")]
pub struct ModelOptions {
    /// `pocket`, a directory in Hugging Face layout, or a hub id
    #[arg(long, value_name = "MODEL", default_value = "pocket")]
    pub model: String,
    /// How to read its files.
    #[command(flatten)]
    pub checkpoint: CheckpointOptions,
    /// Most states in one model batch; the result does not depend on it
    #[arg(long, value_name = "N", value_parser = crate::options::positive)]
    pub batch_size: Option<std::num::NonZeroUsize>,
}

/// How to read a checkpoint's files.
#[derive(Args, Clone, Debug)]
pub struct CheckpointOptions {
    /// Directory or hub id of the tokenizer, where the model ships none
    #[arg(long, value_name = "DIR-OR-ID")]
    pub tokenizer: Option<String>,
    /// The mask token's id, where the checkpoint does not say
    #[arg(long, value_name = "ID")]
    pub mask_id: Option<u32>,
    /// How weights are held in memory: auto, f32, f16, bf16 or int8
    #[arg(long, value_name = "TYPE", default_value = "auto")]
    pub dtype: String,
    /// Read the files as another architecture, such as `diffullama`
    #[arg(long = "as", value_name = "ARCHITECTURE")]
    pub read_as: Option<String>,
}
