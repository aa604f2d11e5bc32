//! A file that grows by whole pieces: rows, traces.
//!
//! Guarantees: a piece is on the disk as a whole when `append` returns; after a write that failed the file
//! is cut back to its last whole piece, or takes no more; two processes never write one file. What a crash
//! leaves behind is a whole piece followed by a part of one, which whoever opens the file next cuts off.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write},
    path::{Path, PathBuf},
};

use crate::{Error, ErrorKind, Result};

/// What pieces are written to; tests put one in its place that fails.
pub trait Disk: Write {
    /// Makes sure that what was written survives.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file to a length and goes to its end.
    fn cut(&mut self, length: u64) -> io::Result<()>;
    /// Lets others write. Closing is not enough: a program that is being started has a copy of every open
    /// file until it runs, and with it the lock.
    fn release(&mut self) {}
}

impl Disk for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.seek(SeekFrom::Start(length)).map(|_| ())
    }

    fn release(&mut self) {
        // A lock that cannot be given back ends with the process.
        self.unlock().ok();
    }
}

/// A file that this process alone appends to.
#[derive(Debug)]
pub struct Growing<D: Disk = File> {
    path: PathBuf,
    disk: D,
    length: u64,
    /// A piece was written in part and could not be taken back.
    broken: bool,
}

impl Growing {
    /// Opens or creates an ordinary file, locks it, and gives what is in it.
    pub fn open(path: &Path) -> Result<(Self, Vec<u8>)> {
        let (name, wrong) = (path.display(), |message: String| Error::new(ErrorKind::Io, message));
        // Before it is opened: a pipe without a reader would wait for one.
        if let Ok(what) = path.metadata()
            && !what.is_file()
        {
            return Err(wrong(format!("{name}: expected an ordinary file, got {}", kind(&what)))
                .with_hint("rows need a file that can be continued; print them instead"));
        }
        let failed = |error: io::Error| {
            let error = Error::from(error).context(format!("{name}: cannot be written"));
            error.with_hint("name a file that may be written, in a folder that is there")
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        if file.try_lock().is_err() {
            return Err(wrong(format!("{name}: another process is writing this file"))
                .with_hint("wait for it to finish, or name another file"));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        Ok((Self::new(path, file, bytes.len() as u64), bytes))
    }

    /// Opens a new or an empty file; one that holds something is left as it is.
    pub(crate) fn fresh(path: &Path) -> Result<Self> {
        let (file, bytes) = Self::open(path)?;
        expect_empty(path, bytes.len() as u64)?;
        Ok(file)
    }
}

/// Refuses a file that already holds bytes.
pub(crate) fn expect_empty(path: &Path, bytes: u64) -> Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    let message = format!("{}: the file already holds {bytes} bytes", path.display());
    Err(Error::new(ErrorKind::Io, message)
        .with_hint("resume it, name another file, or remove it first"))
}

impl<D: Disk> Growing<D> {
    /// A file of so many bytes, at its end.
    pub fn new(path: &Path, disk: D, length: u64) -> Self {
        Self { path: path.into(), disk, length, broken: false }
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it is on.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Bytes in it.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Appends a piece, whole or not at all.
    pub fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        if self.broken {
            return Err(io::Error::other("an earlier piece could not be taken back"));
        }
        if let Err(error) = self.disk.write_all(piece).and_then(|()| self.disk.sync()) {
            // The first error is the one to tell; what cannot be cut now is cut when it is opened again.
            self.broken = self.disk.cut(self.length).is_err();
            return Err(error);
        }
        self.length += piece.len() as u64;
        Ok(())
    }

    /// Cuts it to a length.
    pub fn cut(&mut self, length: u64) -> io::Result<()> {
        self.disk.cut(length)?;
        self.length = length;
        self.disk.sync()
    }
}

impl<D: Disk> Drop for Growing<D> {
    fn drop(&mut self) {
        self.disk.release();
    }
}

/// What something is that is no file.
fn kind(what: &std::fs::Metadata) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        let kind = what.file_type();
        if kind.is_fifo() {
            return "a pipe";
        } else if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        } else if kind.is_socket() {
            return "a socket";
        }
    }
    if what.is_dir() { "a folder" } else { "something else" }
}
