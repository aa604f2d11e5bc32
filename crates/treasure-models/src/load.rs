//! From a name to a network: the steps every kind of model shares.

use std::sync::Arc;

use treasure_text::ChatTemplate;

use crate::{
    Error, Family, LoadOptions, Resolver, Result, Role, Source, Tokenizer,
    arch::{self, Checkpoint, ClassifierNet, LanguageModel},
    config::Config,
    describe::{Description, licence},
    exec::{Executor, Precision, Runner, Storage},
    gguf::{BlockType, Header},
    published,
    stack::{Network, Reader, Stack},
    weights::Weights,
};

/// The files of a checkpoint, opened and recognised.
pub(crate) struct Opened {
    pub(crate) source: Source,
    pub(crate) kind: Format,
    pub(crate) weights: Arc<Weights>,
    pub(crate) family: Family,
    pub(crate) storage: Storage,
    pub(crate) precision: Precision,
}

pub(crate) enum Format {
    HuggingFace(Config),
    Gguf(Header),
}

/// A network with its tokenizer and what is known about both; without weights it is an outline.
pub(crate) struct Loaded<N> {
    pub(crate) net: N,
    pub(crate) tokenizer: Option<Tokenizer>,
    pub(crate) description: Description,
    /// How it writes conversations.
    pub(crate) chat: Option<ChatTemplate>,
}

/// What every kind of model has, around its own `from_opened`.
macro_rules! shell {
    ($model:ident, $role:expr, $what:literal) => {
        impl $model {
            #[doc = concat!("Loads ", $what, " by name.")]
            pub fn load(
                resolver: &crate::Resolver,
                spec: &str,
                options: &crate::LoadOptions,
            ) -> crate::Result<Self> {
                Self::load_on(&options.cpu(), resolver, spec, options)
            }

            #[doc = concat!("Loads ", $what, " by name onto an executor.")]
            pub fn load_on(
                executor: &dyn crate::exec::Executor,
                resolver: &crate::Resolver,
                spec: &str,
                options: &crate::LoadOptions,
            ) -> crate::Result<Self> {
                let opened = crate::load::open(resolver, spec, options)?;
                opened.expect($role)?;
                Self::from_opened(executor, &opened, resolver, options)
            }

            /// The family.
            pub fn family(&self) -> crate::Family {
                self.description.architecture
            }

            /// What this model is.
            pub fn describe(&self) -> crate::describe::Description {
                self.description.clone()
            }

            /// The network on its executor, for benchmarks and checks.
            pub fn runner(&self) -> &crate::exec::Runner {
                &self.runner
            }
        }
    };
}
pub(crate) use shell;

/// Resolves, opens and recognises a checkpoint; reads headers only.
pub(crate) fn open(resolver: &Resolver, spec: &str, options: &LoadOptions) -> Result<Opened> {
    options.check()?;
    let precision = options.precision;
    let source = resolver.resolve(spec, options.revision.as_deref())?;
    let place = source.name();
    if let Some(blob) = source.gguf()? {
        let header = Header::read(&blob)?;
        let weights = Arc::new(Weights::from_gguf(blob, &header));
        let own = match header.text("general.architecture")? {
            "llada" => Family::Llada,
            "dream" => Family::Dream,
            _ => Family::Llama,
        };
        let family = options.as_kind.unwrap_or(own);
        if family != own {
            let what = format!("{place}: architecture");
            return Err(Error::expected(what, format!("{own} for this GGUF file"), family));
        }
        let storage = options.dtype.storage(&weights);
        let kind = Format::Gguf(header);
        return Ok(Opened { source, kind, weights, family, storage, precision });
    }
    let config = Config::read(&source.require("config.json")?)?;
    // A model type that is not known is said before asking for weights.
    if options.as_kind.is_none() {
        config.model_type()?;
    }
    let weights = Arc::new(Weights::open(&source)?);
    let family =
        arch::detect(&config, &weights, options.as_kind, &place).map_err(Error::of_file)?;
    let storage = options.dtype.storage(&weights);
    let kind = Format::HuggingFace(config);
    Ok(Opened { source, kind, weights, family, storage, precision })
}

impl Opened {
    fn checkpoint(&self, load: bool) -> Checkpoint<'_> {
        let place = self.source.name();
        Checkpoint { place, weights: &self.weights, load }
    }

    /// Fails if the model is not of the wanted kind, and says what is.
    pub(crate) fn expect(&self, role: Role) -> Result<()> {
        if self.family.role() == role {
            return Ok(());
        }
        let hint = match (self.family, role) {
            (Family::Llama, Role::Denoiser) => {
                "a DiffuLLaMA checkpoint must be read as diffullama, with mask id 811"
            }
            (_, Role::Denoiser) => "use it in a reward, or pass a masked diffusion model",
            (_, Role::Scorer) => {
                "use a GPT-2 or Llama-family model; a denoiser has an ELBO instead"
            }
            (_, Role::Classifier) => "use a checkpoint with a classification head",
        };
        Err(Error::expected(
            self.source.name(),
            role,
            format!("{} ({})", self.family.role(), self.family),
        )
        .with_hint(hint))
    }

    /// Loads the network with its vocabulary head, or without `load` an outline of it.
    pub(crate) fn language_model(
        &self,
        resolver: &Resolver,
        options: &LoadOptions,
        load: bool,
    ) -> Result<Loaded<LanguageModel>> {
        let (net, parameters) = match &self.kind {
            Format::HuggingFace(config) => {
                arch::language_model(self.family, config, &self.checkpoint(load))
            }
            Format::Gguf(header) => arch::gguf_model(header, &self.checkpoint(load)),
        }
        .map_err(Error::of_file)?;
        let tokenizer = self.tokenizer(resolver, options)?;
        let mut description = self.description()?;
        self.complete(
            &mut description,
            (&net.stack, net.rows, net.max_len),
            parameters,
            &tokenizer,
        );
        let specials = tokenizer.as_ref().map(Tokenizer::specials);
        description.bos_id = specials.and_then(|s| s.bos).or(net.bos_id);
        description.eos_id = specials.and_then(|s| s.eos).or(net.eos_id);
        if self.family.role() == Role::Denoiser {
            let stated = options.mask_id.or(net.mask_id).or_else(|| specials?.mask);
            description.mask_id = stated.or_else(|| published::mask_id(self.family, net.rows));
            description.time_conditioned = Some(net.timed);
        }
        let chat = self.chat(tokenizer.as_ref())?;
        description.chat = chat.is_some();
        description.end_ids =
            published::end_ids(&self.source, self.family, description.eos_id, tokenizer.as_ref())?;
        Ok(Loaded { net, tokenizer, description, chat })
    }

    /// Loads the network with its classifier, or without `load` an outline of it.
    pub(crate) fn classifier(
        &self,
        resolver: &Resolver,
        options: &LoadOptions,
        load: bool,
    ) -> Result<Loaded<ClassifierNet>> {
        let (net, parameters) = match &self.kind {
            Format::HuggingFace(config) => {
                arch::classifier(self.family, config, &self.checkpoint(load))
                    .map_err(Error::of_file)?
            }
            Format::Gguf(_) => {
                let place = self.source.name();
                return Err(Error::unsupported(place, "a sequence classifier", "a GGUF file"));
            }
        };
        let tokenizer = self.tokenizer(resolver, options)?;
        let mut description = self.description()?;
        self.complete(
            &mut description,
            (&net.stack, net.rows, net.max_len),
            parameters,
            &tokenizer,
        );
        description.labels.clone_from(&net.labels);
        let chat = self.chat(tokenizer.as_ref())?;
        description.chat = chat.is_some();
        Ok(Loaded { net, tokenizer, description, chat })
    }

    /// What every kind of network says about itself: its stack, rows of the embedding and longest sequence.
    fn complete(
        &self,
        description: &mut Description,
        (stack, rows, max_len): (&Stack, usize, usize),
        parameters: u64,
        tokenizer: &Option<Tokenizer>,
    ) {
        description.parameters = parameters;
        description.vocabulary = Some(rows);
        description.tokenizer_entries = tokenizer.as_ref().map(Tokenizer::size);
        description.max_length = Some(max_len);
        description.layers = Some(stack.blocks.len());
        description.width = Some(stack.width);
        description.memory_bytes = self.memory(parameters, rows * stack.width);
    }

    /// Bytes that so many weights take as they are held; int8 products leave tables of so many numbers, and the head
    /// of as many, in two bytes each.
    fn memory(&self, parameters: u64, table: usize) -> u64 {
        match (self.precision, self.storage) {
            (Precision::F32 | Precision::Bf16, Storage::File) => self.weights.bytes(),
            (Precision::F32, storage) => parameters * storage.bytes() as u64,
            (Precision::Bf16, _) => 2 * parameters,
            (Precision::Int8, _) => {
                let shapes = self.weights.tensors().values().map(|info| &info.shape);
                let sizes = shapes.map(|shape| shape.iter().product::<usize>());
                let tables: usize = sizes.filter(|&size| size == table).sum();
                parameters + tables as u64
            }
        }
    }

    /// Checks that a network is whole and that its tokenizer belongs to it, then gives it to an executor.
    pub(crate) fn run(
        &self,
        executor: &dyn Executor,
        stack: Stack,
        reader: Reader,
        tokenizer: Option<&Tokenizer>,
        description: &mut Description,
    ) -> Result<Runner> {
        let broken = |source| Error::new(self.source.name()).with_source(source).of_file();
        let network = Network::new(stack, reader).map_err(broken)?;
        if let (Some(tokenizer), Some(rows)) = (tokenizer, description.vocabulary) {
            tokenizer.check_against(rows)?;
        }
        let runner = Runner::new(executor, network, self.storage)?;
        description.memory_bytes = runner.bytes() as u64;
        description.executor = Some(runner.facts().clone());
        Ok(runner)
    }

    /// The tokenizer the user names, or the model's own, or none.
    fn tokenizer(&self, resolver: &Resolver, options: &LoadOptions) -> Result<Option<Tokenizer>> {
        let Some(spec) = &options.tokenizer else { return self.source.tokenizer() };
        let source = resolver.resolve(spec, None)?;
        match source.tokenizer()? {
            Some(tokenizer) => Ok(Some(tokenizer)),
            None => Err(source.missing("tokenizer.json")),
        }
    }

    fn chat(&self, tokenizer: Option<&Tokenizer>) -> Result<Option<ChatTemplate>> {
        let header = match &self.kind {
            Format::Gguf(header) => Some(header),
            Format::HuggingFace(_) => None,
        };
        published::chat(&self.source, header, self.family, tokenizer)
    }

    /// How most rows are stored that are multiplied where they lie in the file.
    fn mapped(&self) -> Option<BlockType> {
        let stays = self.storage == Storage::File && self.precision != Precision::Int8;
        self.weights.main_type().filter(|_| stays)?.blocks()
    }

    /// What is known so far, for `describe` and `inspect`.
    fn description(&self) -> Result<Description> {
        let listed = self.weights.tensors().values();
        let parameters = listed.map(|info| info.shape.iter().product::<usize>() as u64).sum();
        Ok(Description {
            name: self.source.name(),
            architecture: self.family,
            parameters,
            vocabulary: None,
            tokenizer_entries: None,
            mask_id: None,
            bos_id: None,
            eos_id: None,
            end_ids: Vec::new(),
            chat: false,
            labels: Vec::new(),
            max_length: None,
            layers: None,
            width: None,
            executor: None,
            time_conditioned: None,
            dtype: self.storage,
            precision: self.precision,
            mapped: self.mapped(),
            stored: self.weights.main_type().map(|stored| stored.to_string()),
            memory_bytes: self.memory(parameters, 0),
            licence: licence(&self.source)?,
        })
    }
}
