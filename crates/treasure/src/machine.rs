//! What this machine has.

use std::{fs, sync::OnceLock};

/// The bytes of memory that this process may use at the most: the machine's, or what a container or a
/// shell's limit leaves of it. Unknown where there is no `/proc`.
pub(crate) fn memory() -> Option<u64> {
    static KNOWN: OnceLock<Option<u64>> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let total = kilobytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")? * 1024;
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let groups = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
            .map(|path| read(path).trim().parse().ok());
        let shell = address_space(&read("/proc/self/limits"));
        groups.into_iter().chain([shell]).flatten().chain([total]).min()
    })
}

/// The number behind a name in `/proc/meminfo`.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// The soft limit of the address space in `/proc/self/limits`, which `ulimit -v` sets.
fn address_space(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_machine_and_of_the_shell_are_read() {
        assert_eq!(
            kilobytes("MemTotal:       24579 kB\nMemFree: 1 kB\n", "MemTotal:"),
            Some(24579)
        );
        let limits = "Limit   Soft Limit   Hard Limit   Units\n\
                      Max address space         8192000000           unlimited            bytes\n";
        assert_eq!(address_space(limits), Some(8_192_000_000));
        assert_eq!(address_space("Max address space  unlimited  unlimited  bytes\n"), None);
    }
}
