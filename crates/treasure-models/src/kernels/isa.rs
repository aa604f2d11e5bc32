//! Which instructions this machine has, found once at run time.

use std::sync::OnceLock;

/// An instruction set the kernels are written for. Results of different sets agree within rounding;
/// within one set they are bitwise reproducible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Plain Rust, for any machine.
    Portable,
    /// 256-bit vectors with fused multiply-add.
    Avx2,
    /// 512-bit vectors.
    Avx512,
}

impl Isa {
    /// The best set of this machine.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().last().copied().unwrap_or(Isa::Portable))
    }

    /// The sets this machine can run, slowest first.
    pub fn available() -> Vec<Self> {
        let mut sets = vec![Isa::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
            if avx2 && is_x86_feature_detected!("f16c") {
                sets.push(Isa::Avx2);
                if is_x86_feature_detected!("avx512f") {
                    sets.push(Isa::Avx512);
                }
            }
        }
        sets
    }

    /// Rows of the largest tile of the matrix product.
    pub(crate) fn tile_rows(self) -> usize {
        match self {
            Isa::Portable => 4,
            Isa::Avx2 => 6,
            Isa::Avx512 => 14,
        }
    }
}

/// How one multiply-add rounds.
pub(crate) trait MulAdd {
    /// `a · b + c`.
    fn mul_add(a: f32, b: f32, c: f32) -> f32;
}

/// One rounding: a hardware instruction where it is used.
pub(crate) struct Fused;

/// Two roundings: for machines where a fused multiply-add would be a library call.
pub(crate) struct Split;

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
            {
                #[target_feature(enable = "avx512f,avx2,fma")]
                fn avx512($($arg: $ty),*) $(-> $ret)? {
                    $body::<$crate::kernels::isa::Fused>($($arg),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $ty),*) $(-> $ret)? {
                    $body::<$crate::kernels::isa::Fused>($($arg),*)
                }
                match isa {
                    // SAFETY: an `Isa` other than portable is only made after detecting its features.
                    $crate::kernels::Isa::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::kernels::Isa::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::kernels::Isa::Portable => {}
                }
            }
            let _ = isa;
            $body::<$crate::kernels::isa::Split>($($arg),*)
        }
    };
}
pub(crate) use per_isa;
