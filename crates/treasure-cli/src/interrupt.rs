//! Ctrl-C: the first asks the search to stop and keep what there is, the second ends the program.

use std::{
    io::{self, Write as _},
    process,
    sync::atomic::{AtomicBool, Ordering},
};

/// Set once the user asks to stop; searches look at it within a step.
pub static ASKED: AtomicBool = AtomicBool::new(false);

/// Listens for Ctrl-C (and a polite termination) from now on; `kept` is what stays.
pub fn listen(quiet: bool, kept: &'static str) {
    // Without a handler Ctrl-C ends the program at once, which is no error of the run.
    let _ = ctrlc::set_handler(move || {
        if ASKED.swap(true, Ordering::SeqCst) {
            // 128 + SIGINT, what a shell reports for a program that Ctrl-C ended.
            process::exit(130);
        }
        if !quiet {
            let _ =
                writeln!(io::stderr(), "\nstopping and keeping {kept} (Ctrl-C again ends at once)");
        }
    });
}

/// Whether the user asked to stop.
pub fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}
