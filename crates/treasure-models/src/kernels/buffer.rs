//! Memory on 64-byte boundaries, so that no vector load crosses a cache line.
//! Zeroed at birth; large buffers take their pages from the system only when touched.

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

// SAFETY: all-zero bytes are sixteen floats of 0.
unsafe impl Zeroable for Line {}
// SAFETY: sixteen floats fill the 64 bytes of the alignment, so there is no padding; every bit pattern is a
// float; `Line` is `repr(C)` and `Copy`.
unsafe impl Pod for Line {}

/// A zeroed buffer on a 64-byte boundary, read as `f32`, `u16` or `i8`.
#[derive(Clone, Default)]
pub struct Aligned {
    lines: Vec<Line>,
}

/// Asks the system to back a fresh buffer with large pages: weights are streamed, and page walks would cost.
/// A refusal changes nothing.
fn ask_for_large_pages(buffer: &mut [Line]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        const PAGE: usize = 2 << 20;
        let bytes: &mut [u8] = cast_slice_mut(buffer);
        let skip = bytes.as_ptr().align_offset(PAGE);
        if bytes.len() >= 2 * PAGE && skip < bytes.len() {
            let pages = &mut bytes[skip..];
            let len = pages.len() / PAGE * PAGE;
            // SAFETY: the range starts on a page boundary and lies inside a buffer that we borrow mutably; the
            // advice changes how the pages are backed and keeps what they hold.
            unsafe { libc::madvise(pages.as_mut_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(any(not(target_os = "linux"), miri))]
    let _ = buffer;
}

impl std::fmt::Debug for Aligned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Aligned({} bytes)", self.bytes())
    }
}

impl Aligned {
    /// A zeroed buffer of at least `bytes` bytes.
    pub fn zeroed(bytes: usize) -> Self {
        let mut lines: Vec<Line> = bytemuck::zeroed_vec(bytes.div_ceil(64));
        ask_for_large_pages(&mut lines);
        Self { lines }
    }

    /// A zeroed buffer of at least `len` floats.
    pub fn floats(len: usize) -> Self {
        Self::zeroed(len * 4)
    }

    /// Makes room for `len` floats; contents are unspecified but initialised afterwards.
    pub fn reserve_floats(&mut self, len: usize) {
        if self.lines.len() * 16 < len {
            *self = Self::floats(len);
        }
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.lines.len() * 64
    }

    /// As floats.
    pub fn as_f32(&self) -> &[f32] {
        cast_slice(&self.lines)
    }

    /// As floats, to write.
    pub fn as_f32_mut(&mut self) -> &mut [f32] {
        cast_slice_mut(&mut self.lines)
    }

    /// As 16-bit words.
    pub fn as_u16(&self) -> &[u16] {
        cast_slice(&self.lines)
    }

    /// As 16-bit words, to write.
    pub fn as_u16_mut(&mut self) -> &mut [u16] {
        cast_slice_mut(&mut self.lines)
    }

    /// As bytes, to write.
    pub fn as_u8_mut(&mut self) -> &mut [u8] {
        cast_slice_mut(&mut self.lines)
    }

    /// As bytes with a sign.
    pub fn as_i8(&self) -> &[i8] {
        cast_slice(&self.lines)
    }

    /// As bytes with a sign, to write.
    pub fn as_i8_mut(&mut self) -> &mut [i8] {
        cast_slice_mut(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::Aligned;

    #[test]
    fn buffers_start_on_a_cache_line_and_hold_zeros() {
        // The last is large enough for large pages, and too large for an interpreter.
        for len in [0, 1, 16, 17, 1000, if cfg!(miri) { 5000 } else { 3 << 20 }] {
            let buffer = Aligned::floats(len);
            assert_eq!(buffer.as_f32().as_ptr() as usize % 64, 0);
            assert!(buffer.as_f32().len() >= len && buffer.as_f32().iter().all(|&x| x == 0.0));
        }
    }

    #[test]
    fn what_was_written_as_words_or_bytes_is_read_back_as_such() {
        let mut buffer = Aligned::zeroed(100);
        assert_eq!(buffer.bytes(), 128);
        buffer.as_u16_mut()[40] = 0xbf80;
        buffer.as_u16_mut()[41] = 0x3f80;
        assert_eq!(buffer.as_f32()[20].to_bits(), 0x3f80_bf80);
        buffer.as_i8_mut()[83] = -1;
        assert_eq!(buffer.as_u16()[41], 0xff80);
        assert_eq!(buffer.as_i8()[83], -1);
    }
}
