//! `grove shell-init SHELL`: what a shell needs so that `grove cd` changes its directory and Tab knows names.

use std::process::ExitCode;

use clap::ValueEnum;
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use super::CommandResult;
use super::complete::COMPLETE_VARIABLE;
use crate::{output, words};

#[derive(Debug, clap::Args)]
pub struct ShellInitArgs {
    shell: InitShell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum InitShell {
    Bash,
    Zsh,
    Fish,
}

/// For bash and zsh. `PROGRAM` is this program.
const POSIX_FUNCTIONS: &str = r#"grove() {
    if [ "${1-}" != cd ]; then
        PROGRAM "$@"
        return
    fi
    local argument directory
    for argument in "$@"; do
        case $argument in
            -h | --help | --json)
                PROGRAM "$@"
                return
                ;;
        esac
    done
    shift
    directory=$(PROGRAM cd --print-path "$@") || return
    builtin cd -- "$directory"
}
gcd() {
    grove cd "$@"
}
"#;

const BASH_GCD_COMPLETION: &str = r#"_grove_gcd() {
    COMP_WORDS=(grove cd "${COMP_WORDS[@]:1}")
    COMP_CWORD=$((COMP_CWORD + 1))
    _clap_complete_grove grove "$2" "$3"
}
complete -o nospace -o bashdefault -F _grove_gcd gcd
"#;

const ZSH_GCD_COMPLETION: &str = r#"_grove_gcd() {
    words=(grove cd "${words[@]:1}")
    CURRENT=$((CURRENT + 1))
    _clap_dynamic_completer_grove
}
compdef _grove_gcd gcd
"#;

const ZSH_COMPLETION_SYSTEM: &str = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n";

const FISH_FUNCTIONS: &str = r#"function grove
    if test "$argv[1]" != cd; or contains -- --help $argv; or contains -- -h $argv; or contains -- --json $argv
        PROGRAM $argv
        return
    end
    set -l directory (PROGRAM cd --print-path $argv[2..])
    or return
    builtin cd -- $directory
end
function gcd --wraps 'grove cd'
    grove cd $argv
end
"#;

pub fn run(args: &ShellInitArgs) -> CommandResult {
    let program = std::env::current_exe().map_err(|error| words::no_own_path(&error))?;
    let program = program.to_string_lossy();
    let (shell, before, after): (&dyn EnvCompleter, String, &str) = match args.shell {
        InitShell::Bash => (&Bash, POSIX_FUNCTIONS.replace("PROGRAM", &quote_word(&program)), BASH_GCD_COMPLETION),
        InitShell::Zsh => {
            let functions = POSIX_FUNCTIONS.replace("PROGRAM", &quote_word(&program));
            (&Zsh, functions + ZSH_COMPLETION_SYSTEM, ZSH_GCD_COMPLETION)
        }
        InitShell::Fish => (&Fish, FISH_FUNCTIONS.replace("PROGRAM", &quote_fish_word(&program)), ""),
    };
    let mut text = before.into_bytes();
    let written = shell.write_registration(COMPLETE_VARIABLE, "grove", "grove", &program, &mut text);
    written.map_err(|error| words::no_own_path(&error))?;
    text.extend_from_slice(after.as_bytes());
    output::print_bytes(&text);
    Ok(ExitCode::SUCCESS)
}

/// Quotes a word for bash and zsh.
fn quote_word(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn quote_fish_word(word: &str) -> String {
    format!("'{}'", word.replace('\\', r"\\").replace('\'', r"\'"))
}
