//! Whether AMX is there: the processor has it, the system saves it, this process may use it, and tiles are what
//! the kernels take them for. Each can be missing while the others are there.

use std::{
    arch::{
        asm,
        x86_64::{__cpuid, __cpuid_count},
    },
    sync::OnceLock,
};

use super::{Configuration, release};

/// State components of AMX: the configuration and the tiles.
const TILE_CONFIGURATION: u32 = 17;
const TILE_DATA: u32 = 18;

/// Found once. The permission, once given, holds for all threads until the process ends.
pub(super) fn detected() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let leaves = __cpuid(0).eax;
        in_processor(leaves) && saved_by_system() && permitted() && {
            let leaf = (leaves >= 0x1d).then(|| {
                let (all, one) = (__cpuid_count(0x1d, 0), __cpuid_count(0x1d, 1));
                [all.eax, all.ebx, all.ecx, all.edx, one.eax, one.ebx, one.ecx, one.edx]
            });
            // SAFETY: the processor has AMX, the system saves it and the permission was given.
            described(leaf) && unsafe { reads_back() }
        }
    })
}

/// CPUID: AMX with tiles, bf16 and bytes.
fn in_processor(leaves: u32) -> bool {
    const WANTED: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    leaves >= 7 && __cpuid_count(7, 0).edx & WANTED == WANTED
}

/// XCR0: the system saves tiles from one thread to the next.
fn saved_by_system() -> bool {
    const SYSTEM_USES_XSAVE: u32 = 1 << 27;
    const WANTED: u32 = 1 << TILE_CONFIGURATION | 1 << TILE_DATA;
    if __cpuid(1).ecx & SYSTEM_USES_XSAVE == 0 {
        return false;
    }
    let low: u32;
    // SAFETY: the system has switched XGETBV on; register 0 always exists then.
    unsafe {
        asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _, options(nostack, nomem));
    }
    low & WANTED == WANTED
}

/// Linux gives each process the permission when asked, unless its signal stacks are too small.
fn permitted() -> bool {
    const ARCH_GET_XCOMP_PERM: libc::c_long = 0x1022;
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    let mut granted: u64 = 0;
    // SAFETY: the first call takes a number; the second writes 8 bytes to `granted`. Systems that know neither
    // refuse.
    unsafe {
        let asked = libc::syscall(
            libc::SYS_arch_prctl,
            ARCH_REQ_XCOMP_PERM,
            libc::c_long::from(TILE_DATA as i32),
        );
        let told = libc::syscall(libc::SYS_arch_prctl, ARCH_GET_XCOMP_PERM, &raw mut granted);
        asked == 0 && told == 0 && granted >> TILE_DATA & 1 == 1
    }
}

/// Whether CPUID leaf 0x1D, the registers of its subleaves 0 and 1, has palette 1 as eight tiles of 16 rows of 64
/// bytes. Some virtual machines hide the leaf and run the instructions: then it says nothing.
pub(super) fn described(leaf: Option<[u32; 8]>) -> bool {
    match leaf {
        None => true,
        Some(registers) if registers == [0; 8] => true,
        Some([palettes, _, _, _, sizes, names, rows, _]) => {
            palettes >= 1
                && sizes == 1024 << 16 | 8192
                && names == 8 << 16 | 64
                && rows & 0xffff == 16
        }
    }
}

/// Whether palette 1, loaded with eight whole tiles, is what the processor then says it has.
///
/// # Safety
/// The processor has AMX, the system saves it and the permission was given.
unsafe fn reads_back() -> bool {
    let mut held = Configuration([0xff; 64]);
    // SAFETY: the caller promises AMX; 64 bytes are written to `held`.
    unsafe {
        Configuration::WHOLE.load();
        asm!("sttilecfg [{}]", in(reg) &raw mut held, options(nostack));
        release();
    }
    held == Configuration::WHOLE
}

#[cfg(test)]
mod tests {
    use super::described;

    #[test]
    fn a_palette_of_other_tiles_is_not_used_and_a_hidden_one_is_tried() {
        let known = [1, 0, 0, 0, 1024 << 16 | 8192, 8 << 16 | 64, 16, 0];
        assert!(described(Some(known)) && described(Some([0; 8])) && described(None));
        for (place, other) in [(0, 0), (4, 2048 << 16 | 8192), (5, 8 << 16 | 128), (6, 8)] {
            let mut leaf = known;
            leaf[place] = other;
            assert!(!described(Some(leaf)), "{leaf:?}");
        }
    }
}
