# Completion of spmm and its tools in bash: options, their values and subcommands are those that --help all lists.
_spmm() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} help subcommands argument values
  COMPREPLY=()
  if [[ $cur == '=' ]]; then
    cur=
  elif [[ $prev == '=' ]]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  help=$("$1" --help all 2>/dev/null)
  subcommands=$(sed -n '/^Subcommands/,/^$/s/^  \([a-z]*\)  .*/\1/p' <<<"$help")
  if ((COMP_CWORD == 1)) && [[ $cur != -* ]]; then
    mapfile -t COMPREPLY < <(compgen -f -W "$subcommands" -- "$cur")
    return
  elif ((COMP_CWORD == 2)) && [[ $prev == help ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$subcommands" -- "$cur")
    return
  elif ((COMP_CWORD > 1)) && grep -qxF -- "${COMP_WORDS[1]}" <<<"$subcommands"; then
    help=$("$1" "${COMP_WORDS[1]}" --help all 2>/dev/null)
  fi
  if [[ $prev == -* ]]; then
    argument=$(sed -nE "s/^ +(-[a-zA-Z], )?$prev ([^ ]+)( .*)?$/\2/p" <<<"$help")
    values=$(tr '|' '\n' <<<"$argument" | grep -E '^[a-z0-9-]+$')
    [[ $prev == --kernel ]] && values=$(sed -n '/^Kernels/,/^$/s/^  \([a-z0-9-]*\)  .*/\1/p' <<<"$help")
    if [[ -n $values ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur")
      return
    fi
  fi
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(sed -nE 's/^ +(-[a-zA-Z], )?(--[a-z][a-z0-9-]*).*/\2/p' <<<"$help")" -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  fi
}
complete -o filenames -F _spmm spmm spmm-{batch,bench,cat,compare,convert,dense,gen,info,mpi,verify}
