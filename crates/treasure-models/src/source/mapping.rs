//! A file as the system pages it in: nothing is read before it is looked at, and what was looked at can be let go of.
//!
//! Assumed of the file, which nothing here can enforce: nobody changes or shortens it while it is mapped. A change
//! by another process may show in the bytes, even between two looks, and reading a page that is gone ends the
//! process. Replacing a file by renaming another over it is safe: the mapping keeps the old one.

use std::fs::File;

/// The bytes of a whole file.
pub(crate) struct Mapping {
    start: *const u8,
    len: usize,
}

// SAFETY: this process never writes the pages, which belong to this value until it is dropped; that no other
// process changes the file meanwhile is assumed (see above).
unsafe impl Send for Mapping {}
// SAFETY: as above; any number of threads may read.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file to read, if this system can and the file has bytes.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn of(file: &File, len: u64) -> Option<Self> {
        use std::os::fd::AsRawFd as _;
        let len = usize::try_from(len).ok().filter(|&len| len > 0)?;
        let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
        // SAFETY: a new mapping at a place that the system chooses, of an open file, for reading only.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), len, protection, flags, file.as_raw_fd(), 0)
        };
        (start != libc::MAP_FAILED).then_some(Self { start: start.cast(), len })
    }

    /// Nothing is mapped here: whoever asks reads instead.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    pub(crate) fn of(_: &File, _: u64) -> Option<Self> {
        None
    }

    /// So many zeros of no file, to try out what multiplying from a mapping costs.
    pub(crate) fn zeros(len: usize) -> Option<Self> {
        #[cfg(all(target_os = "linux", not(miri)))]
        if len > 0 {
            let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a new mapping at a place that the system chooses, of no file, for reading only.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) };
            return (start != libc::MAP_FAILED).then_some(Self { start: start.cast(), len });
        }
        let _ = len;
        None
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is a mapping of `len` bytes that lives as long as `self`. This process never writes it;
        // that nobody else changes or shortens the file meanwhile is assumed (see above).
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        #[cfg(all(target_os = "linux", not(miri)))]
        // SAFETY: the mapping was made with this start and length, and nobody borrows from it any more.
        unsafe {
            libc::munmap(self.start.cast_mut().cast(), self.len);
        }
    }
}

impl std::fmt::Debug for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mapping({} bytes)", self.len)
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_the_whole_file_on_any_thread_even_after_another_took_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("weights"), dir.path().join("other"));
        let bytes: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        std::fs::write(&other, b"else").unwrap();
        let mapped = Mapping::of(&File::open(&path).unwrap(), 10_000).unwrap();
        std::fs::rename(&other, &path).unwrap();
        let same = || assert_eq!(mapped.bytes(), bytes);
        std::thread::scope(|scope| {
            scope.spawn(same);
            scope.spawn(same);
        });
        assert!(Mapping::of(&File::open(&path).unwrap(), 0).is_none());
    }
}
