"""Completion for shells: a script that knows every command and option, so that a key press starts no program.

`recollect completion bash > ~/.local/share/bash-completion/completions/recollect`; made anew after an upgrade.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from recollect.interfaces.cli.arguments import all_parameters, flags_of
from recollect.interfaces.cli.commands import COMMANDS, GROUPS
from recollect.services.requests import Request

SHELLS = ("bash", "zsh", "fish")


class CompletionRequest(Request):
    """Print the completion script of a shell."""

    shell: str = Field(description="bash, zsh or fish")


def completion(request: CompletionRequest, progress: object = None) -> None:
    """Print a script that completes commands and options. Where it goes stands at its top."""
    from recollect.errors import InvalidInput

    makers = {"bash": bash, "zsh": zsh, "fish": fish}
    if request.shell not in makers:
        raise InvalidInput(f"there is no completion for '{request.shell}'", remedy=f"give one of {', '.join(makers)}")
    print(makers[request.shell](options()), end="")


def options() -> dict[str, list[str]]:
    """The options of every command."""
    found = {}
    for command, operation in COMMANDS.items():
        flags = {flag for one in all_parameters(operation) for flag in flags_of(one)}
        found[command] = sorted(flag for flag in flags | {"--help"} if flag.startswith("--"))
    return found


def words() -> dict[str, list[str]]:
    """What may follow: after nothing the commands and groups, after a group its commands."""
    first = sorted({command.partition(" ")[0] for command in COMMANDS} | {"--help", "--version"})
    groups = {
        group: sorted(command.partition(" ")[2] for command in COMMANDS if command.startswith(f"{group} "))
        for group in GROUPS
    }
    return {"": first} | {group: names for group, names in groups.items() if names}


def bash(known: Mapping[str, list[str]]) -> str:
    commands = "\n".join(f"    '{name}') words='{' '.join(flags)}' ;;" for name, flags in known.items())
    follow = "\n".join(f"    '{name}') words='{' '.join(names)}' ;;" for name, names in words().items())
    return f"""# recollect completion bash > ~/.local/share/bash-completion/completions/recollect
_recollect() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words="" command=""
  case "$current" in
  --*)
    command="${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}}"
    case "$command" in
{commands}
    esac
    if [ -z "$words" ]; then
      case "${{COMP_WORDS[1]}}" in
{commands}
      esac
    fi ;;
  *)
    [ "$COMP_CWORD" -eq 2 ] && command="${{COMP_WORDS[1]}}"
    [ "$COMP_CWORD" -gt 2 ] && command="-"
    case "$command" in
{follow}
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ "${{#COMPREPLY[@]}}" -eq 0 ] && [ "${{current#-}}" = "$current" ] && COMPREPLY=($(compgen -f -- "$current"))
}}
complete -o default -F _recollect recollect
"""


def zsh(known: Mapping[str, list[str]]) -> str:
    commands = "\n".join(f"    '{name}' '{' '.join(flags)}'" for name, flags in known.items())
    follow = "\n".join(f"    '{name or ':'}' '{' '.join(names)}'" for name, names in words().items())
    return f"""#compdef recollect
# recollect completion zsh > "${{fpath[1]}}/_recollect"
_recollect() {{
  local -A options follow
  options=(
{commands}
  )
  follow=(
{follow}
  )
  local current="${{words[CURRENT]}}" one="${{words[2]}}" two="${{words[2]}} ${{words[3]}}"
  if [[ "$current" == --* ]]; then
    compadd -- ${{(s: :)${{options[$two]:-${{options[$one]}}}}}}
  elif (( CURRENT == 2 )); then
    compadd -- ${{(s: :)${{follow[:]}}}}
  elif (( CURRENT == 3 )) && [[ -n "${{follow[$one]}}" ]]; then
    compadd -- ${{(s: :)${{follow[$one]}}}}
  else
    _files
  fi
}}
(( $+functions[compdef] )) && compdef _recollect recollect
"""


def fish(known: Mapping[str, list[str]]) -> str:
    lines = ["# recollect completion fish > ~/.config/fish/completions/recollect.fish"]
    for group, names in words().items():
        shown = " ".join(name for name in names if not name.startswith("-"))
        when = f"__fish_seen_subcommand_from {group}; and test (count (commandline -opc)) -eq 2"
        condition = when if group else "__fish_use_subcommand"
        lines.append(f"complete -c recollect -f -n '{condition}' -a '{shown}'")
    for command, flags in known.items():
        first, _, second = command.partition(" ")
        seen = f"string match -qr '^recollect {first}( {second})?( |$)' -- (commandline -opc | string join ' ')"
        if second:
            seen = f"string match -qr '^recollect {first} {second}( |$)' -- (commandline -opc | string join ' ')"
        given = " ".join(f"-l {flag[2:]}" for flag in flags)
        lines.append(f'complete -c recollect -n "{seen}" {given}')
    return "\n".join(lines) + "\n"
