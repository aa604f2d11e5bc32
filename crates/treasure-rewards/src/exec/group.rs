//! A program with everything it starts, ended as a whole.
//!
//! Guarantee on Unix: the program has a process group of its own, so a terminal's Ctrl-C does not reach it;
//! and when it is ended here, or this process ends in whatever way (SIGKILL too), its group goes with it. On Linux
//! so do descendants that left the group: they are found by a mark in their environment.
//!
//! The second half is the work of a guard, a shell that waits for the end of a pipe only this process holds.

use std::{
    io,
    process::{Child, Command},
};

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl Ended {
    /// In words, with the signal that a shell's exit code stands for.
    pub fn words(self) -> String {
        let signal = |signal: i32| match signal {
            9 => "killed by signal 9 (SIGKILL, often for want of memory)".into(),
            number => format!("killed by signal {number}"),
        };
        match self {
            Self::Signal(number) => signal(number),
            Self::Code(code @ 129..=192) => format!("exit code {code}: {}", signal(code - 128)),
            Self::Code(code) => format!("exit code {code}"),
        }
    }
}

#[cfg(unix)]
pub(super) use unix::Group;

#[cfg(unix)]
mod unix {
    use std::{
        io::Write as _,
        os::unix::process::CommandExt as _,
        process::Stdio,
        sync::atomic::{AtomicU64, Ordering},
        time::{SystemTime, UNIX_EPOCH},
    };

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

    use super::{Child, Command, Ended, io};

    /// The variable that marks a program and all that it starts.
    const MARK: &str = "TREASURE_REWARD_GROUP";

    /// Waits for the end of its standard input, then ends the group and what bears the mark.
    const GUARD: &str = r#"read -r group || exit 0
read -r _
kill -s KILL -- "-$group"
for again in 1 2 3; do
  for file in $(grep -ls "$1" /proc/[0-9]*/environ); do
    file=${file%/environ}
    kill -s KILL "${file#/proc/}"
  done
done"#;

    /// A running program and what it started.
    pub(in crate::exec) struct Group {
        child: Child,
        guard: Child,
        mark: String,
    }

    impl Group {
        /// Starts `command`, whose pipes can then be taken from [`child`](Self::child).
        pub fn spawn(mut command: Command) -> io::Result<Self> {
            static COUNT: AtomicU64 = AtomicU64::new(0);
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            let mark = format!("{}.{count}.{now};", std::process::id());
            // The marks of programs around this one stay: it ends with them too.
            let marks = std::env::var(MARK).unwrap_or_default() + &mark;
            let mut guard = Command::new("sh")
                .args(["-c", GUARD, "guard", &mark])
                .current_dir("/")
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0)
                .spawn()?;
            let child = match command.env(MARK, marks).process_group(0).spawn() {
                Ok(child) => child,
                Err(error) => {
                    end(&mut guard);
                    return Err(error);
                }
            };
            if let Some(pipe) = &mut guard.stdin {
                // A guard that is gone already can do nothing; the group still ends with `Drop`.
                let _ = writeln!(pipe, "{}", child.id());
            }
            Ok(Self { child, guard, mark })
        }

        pub fn child(&mut self) -> &mut Child {
            &mut self.child
        }

        /// How it ended, if it did. It is not reaped: its number stays the group's until [`Drop`].
        pub fn ended(&mut self) -> Option<Ended> {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            let status = waitid(WaitId::Pid(Pid::from_child(&self.child)), options).ok()??;
            let signal = status.terminating_signal().map(Ended::Signal);
            signal.or_else(|| status.exit_status().map(Ended::Code))
        }
    }

    impl Drop for Group {
        fn drop(&mut self) {
            // First the group, then the wait: until then nobody else can have got the group's number.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            end_marked(&self.mark);
            let _ = self.child.wait();
            end(&mut self.guard);
        }
    }

    fn end(child: &mut Child) {
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Ends what bears the mark, again as long as there is something, since it may start more meanwhile.
    fn end_marked(mark: &str) {
        for _ in 0..8 {
            let found = marked(mark);
            if found.is_empty() {
                break;
            }
            for pid in found {
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
        }
    }

    /// Processes that bear the mark; none where there is no `/proc`. What has ended has no environment.
    fn marked(mark: &str) -> Vec<Pid> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pid = |name: std::ffi::OsString| Pid::from_raw(name.to_str()?.parse().ok()?);
        let bears = |pid: &Pid| {
            std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()))
                .is_ok_and(|text| text.windows(mark.len()).any(|part| part == mark.as_bytes()))
        };
        entries.filter_map(|entry| pid(entry.file_name())).filter(bears).collect()
    }
}

#[cfg(not(unix))]
pub(super) struct Group(Child);

#[cfg(not(unix))]
impl Group {
    /// Starts `command`.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        Ok(Self(command.spawn()?))
    }

    pub fn child(&mut self) -> &mut Child {
        &mut self.0
    }

    pub fn ended(&mut self) -> Option<Ended> {
        self.0.try_wait().ok().flatten()?.code().map(Ended::Code)
    }
}

#[cfg(not(unix))]
impl Drop for Group {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
