# Completion of spmm and its tools in fish: options, their values and subcommands are those that --help all lists.
function __spmm_subcommands
    set -l words (commandline -opc)
    command $words[1] --help all 2>/dev/null | sed -n '/^Subcommands/,/^$/s/^  \([a-z]*\)  *\(.*\)/\1\t\2/p'
end
function __spmm_help # of the subcommand that is typed, else of the program
    set -l words (commandline -opc)
    if set -q words[2]; and __spmm_subcommands | string match -q -- $words[2]\t'*'
        command $words[1] $words[2] --help all 2>/dev/null
    else
        command $words[1] --help all 2>/dev/null
    end
end
function __spmm_options
    __spmm_help | sed -nE 's/^ +(-[a-zA-Z], )?(--?[a-z][-a-z0-9]*)( [^ ]+)?( +(.*))?$/\2\t\5/p'
end
function __spmm_values # of the option before
    set -l last (commandline -opc)[-1]
    string match -q -- '-*' $last
    and __spmm_help | sed -nE "s/^ +(-[a-zA-Z], )?$last ([^ ]+)( .*)?\$/\2/p" | string split '|' | string match -r '^[a-z0-9-]+$'
end
function __spmm_takes_subcommand
    set -l words (commandline -opc)
    test (count $words) = 1; or test "$words[2..]" = help
end
for program in spmm spmm-{batch,bench,cat,compare,convert,dense,gen,info,mpi,verify}
    complete -c $program -n __spmm_takes_subcommand -a '(__spmm_subcommands)'
    complete -c $program -n 'test (commandline -opc)[-1] = help' -f
    complete -c $program -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__spmm_options)'
    complete -c $program -n '__spmm_values | string length -q' -f -a '(__spmm_values)'
end
