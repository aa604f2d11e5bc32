//! Which instructions this machine has, found once at run time.
//!
//! An [`Isa`] is a proof: only detection makes one, so whoever holds it may run its instructions.

use std::{fmt, sync::OnceLock};

use super::amx;
use crate::exec::Precision;

/// An instruction set this machine has and the kernels are written for. Results of different sets agree
/// within rounding; within one set they are bitwise reproducible.
///
/// ```compile_fail
/// // There is no way to claim a set that was not detected.
/// let claimed = treasure_models::exec::Isa::Avx512;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Isa(Set);

/// The sets there are kernels for, slowest first. Naming one proves nothing: only an [`Isa`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Set {
    /// Plain Rust, for any machine.
    Portable,
    /// AVX2, FMA and F16C: 256-bit vectors with fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// The same and AVX-512F: 512-bit vectors.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// The same, AVX512_BF16, AVX512_VNNI, and AMX on bf16 and bytes: tiles of 16 rows of 64 bytes.
    #[cfg(target_arch = "x86_64")]
    Amx,
}

impl Isa {
    /// The best set of this machine.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().last().copied().unwrap_or(Self(Set::Portable)))
    }

    /// The sets this machine can run, slowest first.
    pub fn available() -> Vec<Self> {
        let mut sets = vec![Self(Set::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if avx2 && is_x86_feature_detected!("f16c") {
                sets.push(Self(Set::Avx2));
                if is_x86_feature_detected!("avx512f") {
                    sets.push(Self(Set::Avx512));
                    let bf16 = is_x86_feature_detected!("avx512bf16");
                    if bf16 && is_x86_feature_detected!("avx512vnni") && amx::detected() {
                        sets.push(Self(Set::Amx));
                    }
                }
            }
        }
        sets
    }

    /// The set of this name, if this machine has it.
    pub fn named(name: &str) -> Option<Self> {
        Self::available().into_iter().find(|isa| isa.name() == name)
    }

    /// `portable`, `avx2`, `avx512` or `amx`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Set::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Set::Amx => "amx",
        }
    }

    /// Which set it is. The machine has it, since this value exists.
    pub(super) fn set(self) -> Set {
        self.0
    }

    /// Whether this set comes with dot products of bf16 in hardware (AVX512_BF16, AMX).
    pub fn dots_bf16(self) -> bool {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => is_x86_feature_detected!("avx512bf16"),
            #[cfg(target_arch = "x86_64")]
            Set::Amx => true,
            _ => false,
        }
    }

    /// Whether bf16 is the faster precision here. Vectors of it are on AMD's processors; Intel's take twice the time for
    /// one, so that they gain nothing without tiles.
    pub fn prefers_bf16(self) -> bool {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => self.dots_bf16() && is_amd(),
            _ => self.dots_bf16(),
        }
    }

    /// Whether this set comes with dot products of bytes in hardware (AVX512_VNNI, AVX-VNNI, AMX).
    pub fn dots_int8(self) -> bool {
        match self.0 {
            Set::Portable => false,
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => is_x86_feature_detected!("avxvnni"),
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => is_x86_feature_detected!("avx512vnni"),
            #[cfg(target_arch = "x86_64")]
            Set::Amx => true,
        }
    }

    /// Whether products of a precision run on tiles of AMX. Those of bf16, which int8 takes for attention and heads,
    /// are then rounded in other places than by vectors.
    pub fn has_tiles(self, precision: Precision) -> bool {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Set::Amx => precision != Precision::F32,
            _ => false,
        }
    }

    /// Rows of the largest tile of the matrix product in a precision.
    pub(super) fn tile_rows(self, precision: Precision) -> usize {
        match self.0 {
            Set::Portable => 4,
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => 6,
            #[cfg(target_arch = "x86_64")]
            Set::Amx if self.has_tiles(precision) => 2 * amx::ROWS,
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 | Set::Amx => 14,
        }
    }

    /// Rows that a product in a precision had better not part.
    pub(super) fn row_grain(self, precision: Precision) -> usize {
        if self.has_tiles(precision) { 2 * amx::ROWS } else { 1 }
    }

    /// So many rows and those that the matrix product in a precision reads and writes behind them.
    pub(super) fn whole_rows(self, precision: Precision, rows: usize) -> usize {
        if self.has_tiles(precision) { rows.next_multiple_of(amx::ROWS) } else { rows }
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How one multiply-add rounds.
pub(crate) trait MulAdd {
    /// `a · b + c`.
    fn mul_add(a: f32, b: f32, c: f32) -> f32;
}

/// One rounding: a hardware instruction where it is used.
#[cfg(target_arch = "x86_64")]
pub(crate) struct Fused;

/// Two roundings: for machines where a fused multiply-add would be a library call.
pub(crate) struct Split;

#[cfg(target_arch = "x86_64")]
impl MulAdd for Fused {
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}

impl MulAdd for Split {
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}

/// Compiles a generic body once per instruction set and calls the one asked for. The body is a function
/// generic over [`MulAdd`] marked `#[inline(always)]`, so that the compiler vectorises it for each set.
macro_rules! per_isa {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $body:ident;) => {
        $(#[$meta])*
        $vis fn $name(isa: $crate::kernels::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx2,fma")]
            fn avx512($($arg: $ty),*) $(-> $ret)? {
                $body::<$crate::kernels::isa::Fused>($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $ty),*) $(-> $ret)? {
                $body::<$crate::kernels::isa::Fused>($($arg),*)
            }
            match isa.set() {
                // SAFETY: this `Isa` exists, so detection found AVX-512F, AVX2 and FMA on this machine.
                #[cfg(target_arch = "x86_64")]
                $crate::kernels::isa::Set::Avx512 | $crate::kernels::isa::Set::Amx => unsafe {
                    avx512($($arg),*)
                },
                // SAFETY: this `Isa` exists, so detection found AVX2 and FMA on this machine.
                #[cfg(target_arch = "x86_64")]
                $crate::kernels::isa::Set::Avx2 => unsafe { avx2($($arg),*) },
                $crate::kernels::isa::Set::Portable => {
                    $body::<$crate::kernels::isa::Split>($($arg),*)
                }
            }
        }
    };
}
pub(crate) use per_isa;

/// Whether AMD made the processor.
#[cfg(target_arch = "x86_64")]
fn is_amd() -> bool {
    let vendor = std::arch::x86_64::__cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).concat() == b"AuthenticAMD"
}
