//! Memory on 64-byte boundaries, so that no vector load crosses a cache line.
//! Zeroed at birth; large buffers take their pages from the system only when touched.

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// A zeroed buffer on a 64-byte boundary, read as `f32`, `u16` or `i8`.
#[derive(Clone, Default)]
pub struct Aligned {
    lines: Vec<Line>,
}

/// Asks the system to back a fresh buffer with large pages: weights are streamed, and page walks would cost.
/// A refusal changes nothing.
///
/// # Safety
/// `start..start + bytes` is one live allocation.
unsafe fn ask_for_large_pages(start: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 2 << 20;
        let skip = start.align_offset(PAGE);
        if bytes >= 2 * PAGE && skip < bytes {
            let len = (bytes - skip) / PAGE * PAGE;
            // SAFETY: the range is page-aligned and inside the allocation; the advice keeps its contents.
            unsafe { libc::madvise(start.add(skip).cast(), len, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}

impl std::fmt::Debug for Aligned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Aligned({} bytes)", self.bytes())
    }
}

impl Aligned {
    /// A zeroed buffer of at least `bytes` bytes.
    pub fn zeroed(bytes: usize) -> Self {
        let count = bytes.div_ceil(64);
        if count == 0 {
            return Self::default();
        }
        let layout =
            std::alloc::Layout::array::<Line>(count).expect("a buffer fits the address space");
        // SAFETY: the layout is not empty; all-zero bytes are a valid `Line`; the pointer came from the
        // global allocator with exactly the layout that `Vec` will free.
        let lines = unsafe {
            let pointer = std::alloc::alloc_zeroed(layout);
            if pointer.is_null() {
                std::alloc::handle_alloc_error(layout);
            }
            ask_for_large_pages(pointer, layout.size());
            Vec::from_raw_parts(pointer.cast::<Line>(), count, count)
        };
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
        // SAFETY: a `Line` is 16 floats without padding, and the borrow is passed on.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * 16) }
    }

    /// As floats, to write.
    pub fn as_f32_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `as_f32`; the borrow is unique.
        unsafe {
            std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * 16)
        }
    }

    /// As 16-bit words.
    pub fn as_u16(&self) -> &[u16] {
        // SAFETY: a `Line` is 32 words without padding; every bit pattern is a word.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * 32) }
    }

    /// As 16-bit words, to write.
    pub fn as_u16_mut(&mut self) -> &mut [u16] {
        // SAFETY: as in `as_u16`; every pair of words is a valid float.
        unsafe {
            std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * 32)
        }
    }

    /// As bytes with a sign.
    pub fn as_i8(&self) -> &[i8] {
        // SAFETY: a `Line` is 64 bytes without padding; every bit pattern is a byte.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * 64) }
    }

    /// As bytes with a sign, to write.
    pub fn as_i8_mut(&mut self) -> &mut [i8] {
        // SAFETY: as in `as_i8`; every four bytes are a valid float.
        unsafe {
            std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * 64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Aligned;

    #[test]
    fn buffers_start_on_a_cache_line_and_hold_zeros() {
        for len in [0, 1, 16, 17, 1000] {
            let buffer = Aligned::floats(len);
            assert_eq!(buffer.as_f32().as_ptr() as usize % 64, 0);
            assert!(buffer.as_f32().len() >= len && buffer.as_f32().iter().all(|&x| x == 0.0));
        }
    }
}
