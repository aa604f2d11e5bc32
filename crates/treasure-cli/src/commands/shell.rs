//! `treasure completions` and `treasure man`: what a package installs beside the program.

use std::{fs, io, path::PathBuf};

use clap::{Args, CommandFactory as _};

use crate::{
    Verdict,
    cli::Cli,
    failure::{OrFail as _, Outcome},
    output::print,
};

/// Completions of a shell, on standard output
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  treasure completions bash > ~/.local/share/bash-completion/completions/treasure")]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// The manual page, on standard output
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  treasure man | man -l -
  treasure man --out ~/.local/share/man/man1")]
pub struct Man {
    /// Write the pages of the program and of every command here instead
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
}

/// What a generator wrote into memory, without the line break that printing adds.
fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Outcome<String> {
    let mut out = Vec::new();
    write(&mut out)?;
    Ok(String::from_utf8_lossy(&out).trim_end().to_owned())
}

impl Completions {
    /// Prints them.
    pub fn run(&self) -> Outcome<Verdict> {
        let mut command = Cli::command();
        let write = |out: &mut Vec<u8>| {
            clap_complete::generate(self.shell, &mut command, "treasure", out);
            Ok(())
        };
        print::line(text(write)?)?;
        Ok(Verdict::Done)
    }
}

impl Man {
    /// Prints or writes them.
    pub fn run(&self) -> Outcome<Verdict> {
        let Some(folder) = &self.out else {
            print::line(text(|out| clap_mangen::Man::new(Cli::command()).render(out))?)?;
            return Ok(Verdict::Done);
        };
        fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
            .context(|| folder.display())?;
        Ok(Verdict::Done)
    }
}
