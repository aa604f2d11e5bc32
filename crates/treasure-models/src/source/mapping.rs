//! A file as the system pages it in: nothing is read before it is looked at, and what was looked at can be let go of.
//!
//! The file must not be shortened while it is mapped: reading a page that is gone ends the process.

use std::fs::File;

/// The bytes of a whole file.
pub(crate) struct Mapping {
    start: *const u8,
    len: usize,
}

// SAFETY: the pages are never written, and belong to this value until it is dropped.
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
        // SAFETY: `start` is a mapping of `len` bytes that lives as long as `self` and is never written.
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
