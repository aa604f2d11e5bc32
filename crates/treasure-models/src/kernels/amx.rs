//! Products by AMX: tiles of 16 rows of 64 bytes, multiplied by one instruction.
//!
//! A panel of weights already lies as the instructions want it: a word of inputs after another, 32 outputs each.
//! What one instruction computes is told in [`super::words`]. The chain of an element goes on from what earlier
//! blocks left, in steps of [`STEP`] words at fixed places: neither rows, nor blocks, nor company enter.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod detection;

#[cfg(target_arch = "x86_64")]
use std::{arch::asm, cell::Cell, marker::PhantomData};

#[cfg(target_arch = "x86_64")]
use super::{
    linear::PANEL,
    tile::{STRIDE, Tile},
};
#[cfg(target_arch = "x86_64")]
use crate::exec::Precision;

/// Words that one instruction sums.
pub(super) const STEP: usize = 16;

/// Rows of a tile.
pub(super) const ROWS: usize = 16;

/// Words of a panel that stay in the nearest cache while rows pass by: 24 KiB of it.
#[cfg(target_arch = "x86_64")]
const NEAR: usize = 192;

/// Whether this machine, its system and this process may run AMX on bf16 and bytes.
#[cfg(target_arch = "x86_64")]
pub(super) fn detected() -> bool {
    #[cfg(target_os = "linux")]
    {
        detection::detected()
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// What LDTILECFG reads and STTILECFG writes.
#[cfg(target_arch = "x86_64")]
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Configuration([u8; 64]);

#[cfg(target_arch = "x86_64")]
impl Configuration {
    /// Palette 1 with all its eight tiles whole.
    const WHOLE: Self = {
        let mut bytes = [0; 64];
        bytes[0] = 1;
        let mut tile = 0;
        while tile < 8 {
            bytes[16 + 2 * tile] = 64;
            bytes[48 + tile] = ROWS as u8;
            tile += 1;
        }
        Self(bytes)
    };

    /// # Safety
    /// The machine has AMX, its system saves tiles, and this process has the permission to use them.
    unsafe fn load(&self) {
        // SAFETY: the caller promises AMX; 64 bytes are read, which are a valid configuration of palette 1.
        unsafe { asm!("ldtilecfg [{}]", in(reg) self, options(nostack, readonly)) };
    }
}

/// Gives the tiles back.
///
/// # Safety
/// The machine has AMX.
#[cfg(target_arch = "x86_64")]
unsafe fn release() {
    // SAFETY: the caller promises AMX; no value of this program lives in tiles between two blocks of assembly.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

#[cfg(target_arch = "x86_64")]
thread_local! {
    /// How many [`Tiles`] this thread has.
    static HOLDERS: Cell<usize> = const { Cell::new(0) };
}

/// A proof that this thread has its tiles configured, which they are from the first such value on until the last
/// is gone: other code never meets them, and the system need not save them.
#[cfg(target_arch = "x86_64")]
pub(super) struct Tiles {
    of_this_thread: PhantomData<*const ()>,
}

#[cfg(target_arch = "x86_64")]
impl Tiles {
    /// # Safety
    /// [`detected`] is true.
    pub unsafe fn configured() -> Self {
        let holders = HOLDERS.get();
        if holders == 0 {
            // SAFETY: the caller promises that detection found AMX and got the permission.
            unsafe { Configuration::WHOLE.load() };
        }
        HOLDERS.set(holders + 1);
        Self { of_this_thread: PhantomData }
    }

    /// `c[r][j] (+)= Σₖ a[r][k] · b[k][j]` as [`super::tile`] has it, for bf16 or int8.
    ///
    /// # Safety
    /// With `rows` rounded up to whole tiles, `a` has `depth` words in each of them at stride `STRIDE`, and `c` 32 at
    /// stride `c_stride`, at least 32, and is not aliased: what lies behind the last row is read and overwritten.
    /// `b` has `depth × 32` words.
    pub unsafe fn multiply(
        &self,
        kind: Precision,
        tile: Tile,
        a: *const f32,
        b: *const f32,
        c: *mut f32,
        next: Option<*const f32>,
    ) {
        let Tile { rows, depth, c_stride, add } = tile;
        let whole = depth / STEP * STEP;
        // SAFETY: the caller promises `depth` words, of which these are the last.
        let tail = unsafe { Tail::new(depth - whole, b.add(whole * PANEL)) };
        for start in (0..depth.max(1)).step_by(NEAR) {
            let steps = NEAR.min(whole.saturating_sub(start)) / STEP;
            let near = b.wrapping_add(start * PANEL);
            let (mut fetched, wanted) = (0, next.map_or(0, |_| NEAR.min(depth - start) * PANEL));
            for row in (0..rows).step_by(2 * ROWS) {
                let two = row + ROWS < rows;
                // SAFETY: these rows and steps lie within what the caller promises.
                let (from, to) = unsafe { (a.add(row * STRIDE + start), c.add(row * c_stride)) };
                let mut part = Part {
                    a: from,
                    a_stride: STRIDE,
                    b: near,
                    c: to,
                    c_stride,
                    steps,
                    // All of it is on its way soon; then what is here anyway is asked for.
                    next: match next {
                        Some(next) if fetched < wanted => {
                            next.wrapping_add(start * PANEL + fetched)
                        }
                        _ => near,
                    },
                    two,
                    add: add || start > 0,
                };
                if steps > 0 || tail.is_none() {
                    // SAFETY: as above; tiles are configured, since `self` exists and stays on its thread.
                    unsafe { part.multiply(kind) };
                    fetched += steps * FETCHED;
                }
                if let Some(tail) = tail.as_ref().filter(|_| start + NEAR >= depth) {
                    // SAFETY: the caller promises `depth` words in these rows.
                    let rows = unsafe { tail.rows(a.add(row * STRIDE + whole), two) };
                    part = Part {
                        a: rows.0.as_ptr().cast(),
                        a_stride: STEP,
                        b: tail.weights.0.as_ptr().cast(),
                        steps: 1,
                        next: part.b,
                        add: add || whole > 0,
                        ..part
                    };
                    // SAFETY: the copies are whole tiles; `c` as above.
                    unsafe { part.multiply(kind) };
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for Tiles {
    fn drop(&mut self) {
        HOLDERS.set(HOLDERS.get() - 1);
        if HOLDERS.get() == 0 {
            // SAFETY: this value exists, so there is AMX.
            unsafe { release() };
        }
    }
}

/// Floats of the coming panel that a step fetches into the second-level cache.
#[cfg(target_arch = "x86_64")]
const FETCHED: usize = 4 * 16;

/// What is left behind the last whole step, beside zeros.
#[cfg(target_arch = "x86_64")]
struct Tail {
    words: usize,
    weights: Copied<PANEL>,
}

#[cfg(target_arch = "x86_64")]
#[repr(C, align(64))]
struct Copied<const WIDTH: usize>([[f32; WIDTH]; 2 * ROWS]);

#[cfg(target_arch = "x86_64")]
impl Tail {
    /// A copy of `words` words of a panel from `b` on, if there are any.
    ///
    /// # Safety
    /// `b` has as many words of 32 floats, fewer than [`STEP`].
    unsafe fn new(words: usize, b: *const f32) -> Option<Self> {
        (words > 0).then(|| {
            let mut weights = Copied([[0.0; PANEL]; 2 * ROWS]);
            for (word, to) in weights.0[..words].iter_mut().enumerate() {
                // SAFETY: the caller promises these words, and a row of the copy holds 32 floats.
                unsafe { b.add(word * PANEL).copy_to_nonoverlapping(to.as_mut_ptr(), PANEL) };
            }
            Self { words, weights }
        })
    }

    /// A copy of the same words of one or two tiles of rows.
    ///
    /// # Safety
    /// `a` has as many words in each of these rows.
    unsafe fn rows(&self, a: *const f32, two: bool) -> Copied<STEP> {
        let mut rows = Copied([[0.0; STEP]; 2 * ROWS]);
        let count = if two { 2 * ROWS } else { ROWS };
        for (row, to) in rows.0[..count].iter_mut().enumerate() {
            // SAFETY: the caller promises these words, and there are fewer than STEP.
            unsafe { a.add(row * STRIDE).copy_to_nonoverlapping(to.as_mut_ptr(), self.words) };
        }
        rows
    }
}

/// One or two tiles of rows against the two tiles of a panel, for some steps.
#[cfg(target_arch = "x86_64")]
struct Part {
    a: *const f32,
    a_stride: usize,
    b: *const f32,
    c: *mut f32,
    c_stride: usize,
    steps: usize,
    next: *const f32,
    two: bool,
    add: bool,
}

/// The loop over steps of one product: `$instruction`, for one or two tiles of rows. Rows are loaded past the nearest
/// cache (T1), so that the panel stays there: worth a fifth.
#[cfg(target_arch = "x86_64")]
macro_rules! steps {
    ($part:ident, $instruction:literal) => {
        if $part.two {
            asm!(
                "test {add}, {add}",
                "jz 3f",
                "tileloadd tmm0, [{c} + {cs}]",
                "tileloadd tmm1, [{c} + {cs} + 64]",
                "tileloadd tmm2, [{c2} + {cs}]",
                "tileloadd tmm3, [{c2} + {cs} + 64]",
                "jmp 4f",
                "3:",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "4:",
                "test {n}, {n}",
                "jz 5f",
                "2:",
                "tileloadd tmm6, [{b} + {bs}]",
                "tileloaddt1 tmm4, [{a} + {as_}]",
                concat!($instruction, " tmm0, tmm4, tmm6"),
                "prefetcht1 [{next}]",
                "prefetcht1 [{next} + 64]",
                "tileloadd tmm7, [{b} + {bs} + 64]",
                concat!($instruction, " tmm1, tmm4, tmm7"),
                "prefetcht1 [{next} + 128]",
                "prefetcht1 [{next} + 192]",
                "tileloaddt1 tmm5, [{a2} + {as_}]",
                concat!($instruction, " tmm2, tmm5, tmm6"),
                concat!($instruction, " tmm3, tmm5, tmm7"),
                "add {a}, 64",
                "add {a2}, 64",
                "add {b}, 2048",
                "add {next}, 256",
                "dec {n}",
                "jnz 2b",
                "5:",
                "tilestored [{c} + {cs}], tmm0",
                "tilestored [{c} + {cs} + 64], tmm1",
                "tilestored [{c2} + {cs}], tmm2",
                "tilestored [{c2} + {cs} + 64], tmm3",
                add = in(reg) usize::from($part.add),
                a = inout(reg) $part.a => _,
                a2 = inout(reg) $part.a.wrapping_add(ROWS * $part.a_stride) => _,
                as_ = in(reg) $part.a_stride * 4,
                b = inout(reg) $part.b => _,
                bs = in(reg) PANEL * 4,
                c = in(reg) $part.c,
                c2 = in(reg) $part.c.wrapping_add(ROWS * $part.c_stride),
                cs = in(reg) $part.c_stride * 4,
                n = inout(reg) $part.steps => _,
                next = inout(reg) $part.next => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            )
        } else {
            asm!(
                "test {add}, {add}",
                "jz 3f",
                "tileloadd tmm0, [{c} + {cs}]",
                "tileloadd tmm1, [{c} + {cs} + 64]",
                "jmp 4f",
                "3:",
                "tilezero tmm0",
                "tilezero tmm1",
                "4:",
                "test {n}, {n}",
                "jz 5f",
                "2:",
                "tileloadd tmm6, [{b} + {bs}]",
                "tileloaddt1 tmm4, [{a} + {as_}]",
                concat!($instruction, " tmm0, tmm4, tmm6"),
                "prefetcht1 [{next}]",
                "prefetcht1 [{next} + 64]",
                "tileloadd tmm7, [{b} + {bs} + 64]",
                concat!($instruction, " tmm1, tmm4, tmm7"),
                "prefetcht1 [{next} + 128]",
                "prefetcht1 [{next} + 192]",
                "add {a}, 64",
                "add {b}, 2048",
                "add {next}, 256",
                "dec {n}",
                "jnz 2b",
                "5:",
                "tilestored [{c} + {cs}], tmm0",
                "tilestored [{c} + {cs} + 64], tmm1",
                add = in(reg) usize::from($part.add),
                a = inout(reg) $part.a => _,
                as_ = in(reg) $part.a_stride * 4,
                b = inout(reg) $part.b => _,
                bs = in(reg) PANEL * 4,
                c = in(reg) $part.c,
                cs = in(reg) $part.c_stride * 4,
                n = inout(reg) $part.steps => _,
                next = inout(reg) $part.next => _,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            )
        }
    };
}

#[cfg(target_arch = "x86_64")]
impl Part {
    /// # Safety
    /// `a` has `16 · steps` words in each row of its tiles at stride `a_stride`, `b` `16 · steps × 32`, `c` 32 floats
    /// in each row of its tiles at stride `c_stride`, not aliased; `next` is only prefetched. Tiles are configured.
    unsafe fn multiply(&self, kind: Precision) {
        // SAFETY: the caller promises all that is read and written, and configured tiles; every register that is
        // changed is named.
        unsafe {
            match kind {
                Precision::Int8 => steps!(self, "tdpbusd"),
                _ => steps!(self, "tdpbf16ps"),
            }
        }
    }
}

/// Rounds of the four products of two by two tiles, on tiles alone; two operations per multiply-add are counted.
///
/// # Safety
/// [`detected`] is true.
#[cfg(all(feature = "bench", target_arch = "x86_64"))]
pub(super) unsafe fn rounds(kind: Precision, rounds: usize) -> f64 {
    // SAFETY: the caller promises that detection found AMX.
    let _tiles = unsafe { Tiles::configured() };
    macro_rules! rounds {
        ($instruction:literal) => {
            asm!(
                "2:",
                concat!($instruction, " tmm0, tmm4, tmm6"),
                concat!($instruction, " tmm1, tmm4, tmm7"),
                concat!($instruction, " tmm2, tmm5, tmm6"),
                concat!($instruction, " tmm3, tmm5, tmm7"),
                "dec {n}",
                "jnz 2b",
                n = inout(reg) rounds.max(1) => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                options(nostack, nomem),
            )
        };
    }
    // SAFETY: tiles are configured, whatever they hold; the four that are written are named; no memory is touched.
    unsafe {
        match kind {
            Precision::Int8 => rounds!("tdpbusd"),
            _ => rounds!("tdpbf16ps"),
        }
    }
    let each = 2 * ROWS * ROWS * STEP * kind.per_word();
    (4 * each * rounds.max(1)) as f64
}
