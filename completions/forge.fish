# fish completion for Forge: forge, and each forge-* command.
#
# It is installed as vendor_completions.d/forge.fish, with a link to it under the
# name of each command, or sourced. Flags and subcommands come from --help, tools
# from forge-list: nothing here repeats them.

# Reads a help and prints the flags, each with what it does.
function __forge_flags
    awk '/^[A-Z ]+:$/ { inside = /OPTIONS:/; next }
        !inside || !/^   -/ { next }
        {
            line = substr($0, 4)
            at = match(line, /  +/)
            names = at ? substr(line, 1, at - 1) : line
            what = at ? substr(line, at + RLENGTH) : ""
            n = split(names, words, /[ ,[]+/)
            for (i = 1; i <= n; i++)
                if (words[i] ~ /^--?[a-z]/ && !seen[words[i]]++)
                    printf "%s\t%s\n", words[i], what
        }'
end

# Reads a help and prints the commands in it, each with what it does.
function __forge_subcommands
    sed -n '/^COMMANDS:$/,/^$/ s/^   \([a-z][a-z-]*\)  *\(.*\)/\1\t\2/p'
end

# Prints the commands there are, each with what it does.
function __forge_commands
    command forge </dev/null 2>/dev/null | sed -n 's/^forge \([a-z]*\)  *\(.*\)/\1\t\2/p'
end

# Prints the tools in sight, each with what it does.
function __forge_tools
    command forge-list --plain </dev/null 2>/dev/null | awk -F '\t' '{ printf "%s\t%s\n", $1, $5 }'
end

# Reads a help; succeeds if the flag takes a value: a word stands after its name.
function __forge_takes
    sed -n '/OPTIONS:$/,$ s/^   \(-.*\)/\1/p' | sed 's/  .*//' | grep -qE -- "(^|, )$argv[1] [^-]"
end

function __forge_complete
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    set -l name (basename -- $words[1])
    set -e words[1]

    # forge NAME is forge-NAME, and forge help NAME tells of it.
    if test "$name" = forge
        if test (count $words) -eq 0
            if string match -q -- '-*' $cur
                command forge --help </dev/null 2>/dev/null | __forge_flags
            else
                __forge_commands
                printf 'help\thelp with a command\n'
            end
            return
        end
        if test $words[1] = help
            test (count $words) -eq 1; and __forge_commands
            return
        end
        set name forge-$words[1]
        set -e words[1]
    end
    type -q $name; or return
    set -l help (command $name --help </dev/null 2>/dev/null | string collect)
    set -l subs (printf '%s\n' $help | __forge_subcommands)

    # The subcommand, and how many arguments stand before the cursor.
    set -l sub
    set -l value
    set -l args 0
    for word in $words
        if test -n "$value"
            set value
        else if string match -q -- '-*=*' $word
            continue
        else if string match -q -- '-*' $word
            printf '%s\n' $help | __forge_takes $word; and set value $word
        else if test (count $subs) -gt 0; and test -z "$sub"
            set sub $word
            set help (command $name $sub --help </dev/null 2>/dev/null | string collect)
        else
            set args (math $args + 1)
        end
    end

    switch "$value"
        case ''
        case --scope
            printf '%s\n' task session project user
            return
        case --to
            printf '%s\n' session project user
            return
        case --capability
            set -l done (string match -r -- '.*,' $cur)
            printf "$done%s\n" read write network process
            return
        case --toolset
            echo forge
            return
        case --tool
            __forge_tools
            return
        case --home
            __fish_complete_directories $cur
            return
        case --trust --witness --file --key
            __fish_complete_path $cur
            return
        case '*'
            return
    end

    if string match -q -- '-*' $cur
        printf '%s\n' $help | __forge_flags
    else if test (count $subs) -gt 0; and test -z "$sub"
        printf '%s\n' $subs
    else if test $args -eq 0
        switch $name
            case forge-call forge-list forge-promote
                __forge_tools
            case forge-forge
                __fish_complete_directories $cur
        end
    end
end

for command in forge forge-audit forge-call forge-forge forge-list forge-mcp forge-promote
    complete -c $command -f -a '(__forge_complete)'
end
