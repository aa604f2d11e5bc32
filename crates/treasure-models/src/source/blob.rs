//! Bytes that can be read by range: a file on disk or a slice in the binary.
//!
//! Guarantee: a read outside the file is an error before any allocation, so a lying header cannot
//! make us reserve more memory than the file has bytes.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use super::Mapping;
use crate::{Error, Result};

/// A readable file.
#[derive(Debug)]
pub struct Blob {
    name: String,
    path: Option<PathBuf>,
    content: Content,
    len: u64,
    map: OnceLock<Option<Arc<Mapping>>>,
}

#[derive(Debug)]
enum Content {
    File(File),
    Static(&'static [u8]),
}

impl Blob {
    /// Opens a file on disk.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let failed = |source: std::io::Error| {
            Error::unreachable(format!("{name}: cannot be opened")).with_source(source)
        };
        let file = File::open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err(Error::missing(format!("{name}: is not a file")));
        }
        let len = meta.len();
        Ok(Self {
            name,
            path: Some(path.to_owned()),
            content: Content::File(file),
            len,
            map: OnceLock::new(),
        })
    }

    /// Bytes that are part of the binary.
    pub fn embedded(name: impl Into<String>, bytes: &'static [u8]) -> Self {
        let len = bytes.len() as u64;
        Self {
            name: name.into(),
            path: None,
            content: Content::Static(bytes),
            len,
            map: OnceLock::new(),
        }
    }

    /// The name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path on disk, if it is a file on disk.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The number of bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no byte at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The whole file as the system pages it in, where that can be had.
    pub(crate) fn mapping(&self) -> Option<Arc<Mapping>> {
        let map = || match &self.content {
            Content::File(file) => Mapping::of(file, self.len).map(Arc::new),
            Content::Static(_) => None,
        };
        self.map.get_or_init(map).clone()
    }

    /// Fills `out` from `offset`.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(out.len() as u64).filter(|&end| end <= self.len);
        if end.is_none() {
            return Err(Error::new(format!(
                "{}: {} bytes at offset {offset} reach past the end, the file has {} bytes",
                self.name,
                out.len(),
                self.len
            ))
            .with_hint("the file is truncated or damaged: fetch it again")
            .of_file());
        }
        match &self.content {
            Content::Static(bytes) => {
                let start = offset as usize;
                out.copy_from_slice(&bytes[start..start + out.len()]);
                Ok(())
            }
            Content::File(file) => read_exact_at(file, out, offset).map_err(|source| {
                Error::unreachable(format!("{}: reading at offset {offset} failed", self.name))
                    .with_source(source)
            }),
        }
    }

    /// The bytes of a range, allocated only if the file has them.
    pub fn range(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(Error::new(format!(
                "{}: {len} bytes at offset {offset} reach past the end, the file has {} bytes",
                self.name, self.len
            ))
            .with_hint("the file is truncated or damaged: fetch it again")
            .of_file());
        }
        let len = usize::try_from(len)
            .map_err(|_| Error::new(format!("{}: {len} bytes do not fit in memory", self.name)))?;
        let mut bytes = vec![0; len];
        self.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// The whole content, refused above `limit` bytes.
    pub fn bytes(&self, limit: u64) -> Result<Vec<u8>> {
        if self.len > limit {
            return Err(Error::expected(
                &self.name,
                format!("at most {limit} bytes"),
                format!("{} bytes", self.len),
            )
            .of_file());
        }
        self.range(0, self.len)
    }

    /// The whole content as UTF-8, refused above `limit` bytes.
    pub fn text(&self, limit: u64) -> Result<String> {
        String::from_utf8(self.bytes(limit)?).map_err(|source| {
            Error::new(format!("{}: is not UTF-8", self.name)).with_source(source).of_file()
        })
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut out: &mut [u8], mut offset: u64) -> std::io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, offset)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => {
                out = &mut out[read..];
                offset += read as u64;
            }
        }
    }
    Ok(())
}
