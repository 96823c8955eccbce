# bash completion for Forge: forge, and each forge-* command.
#
# Sourced, it serves them all:
#
#	. completions/forge.bash
#
# To be loaded on demand, it is installed as bash-completion/completions/forge,
# with a link to it under the name of each command. Flags and subcommands come
# from --help, tools from forge-list: nothing here repeats them.

# _forge_help COMMAND [SUBCOMMAND] prints the help of a command.
_forge_help() {
	command "$@" --help 2>/dev/null </dev/null
}

# _forge_flags reads a help and prints its flags, one a line.
_forge_flags() {
	sed -n '/OPTIONS:$/,$ s/^   \(-.*\)/\1/p' | sed 's/  .*//' |
		grep -oE -- '(^|[ ,])--?[a-z][a-z-]*' | tr -d ' ,' | awk '!seen[$0]++'
}

# _forge_takes FLAG reads a help, and succeeds if the flag takes a value: a word
# stands after its name.
_forge_takes() {
	sed -n '/OPTIONS:$/,$ s/^   \(-.*\)/\1/p' | sed 's/  .*//' | grep -qE -- "(^|, )$1 [^-]"
}

# _forge_subcommands reads a help and prints the commands in it.
_forge_subcommands() {
	sed -n '/^COMMANDS:$/,/^$/ s/^   \([a-z][a-z-]*\) .*/\1/p'
}

# _forge_words offers those of its arguments that begin with the current word.
_forge_words() {
	local IFS=$'\n'
	mapfile -t COMPREPLY < <(compgen -W "$*" -- "$cur")
}

# _forge_commands prints the commands there are, without forge-.
_forge_commands() {
	compgen -c forge- | sed 's/^forge-//' | sort -u
}

# _forge_files offers files, or with -d directories.
_forge_files() {
	mapfile -t COMPREPLY < <(compgen "${1:--f}" -- "$cur")
	compopt -o filenames 2>/dev/null
}

# _forge_tools offers the tools in sight.
_forge_tools() {
	local IFS=$'\n'
	mapfile -t COMPREPLY < <(compgen -W "$(forge-list --plain 2>/dev/null </dev/null | cut -f1)" -- "$cur")
}

# _forge_list offers comma-separated words.
_forge_list() {
	local done='' IFS=$'\n'
	case $cur in *,*) done=${cur%,*}, ;; esac
	mapfile -t COMPREPLY < <(compgen -P "$done" -W "$*" -- "${cur##*,}")
}

_forge() {
	local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[0]##*/} sub='' i=1 word help value=''
	COMPREPLY=()
	[[ $cur == '=' ]] && cur='' # --flag=, which readline cuts in two

	# forge NAME is forge-NAME, and forge help NAME tells of it.
	if [[ $command == forge ]]; then
		if ((COMP_CWORD == 1)) && [[ $cur == -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$(_forge_help forge | _forge_flags)" -- "$cur")
			return
		elif ((COMP_CWORD == 1)); then
			_forge_words "$(_forge_commands)"$'\n'help
			return
		elif [[ ${COMP_WORDS[1]} == help ]]; then
			((COMP_CWORD == 2)) && _forge_words "$(_forge_commands)"
			return
		fi
		command=forge-${COMP_WORDS[1]}
		i=2
	fi
	type -P "$command" >/dev/null || return
	help=$(_forge_help "$command")

	# The subcommand, and how many arguments stand before the cursor.
	local subs args=0
	subs=$(_forge_subcommands <<<"$help")
	for (( ; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ $word == '=' ]]; then
			continue
		elif [[ -n $value ]]; then
			value=
		elif [[ $word == -* ]]; then
			if _forge_takes "$word" <<<"$help"; then value=$word; fi
		elif [[ -n $subs && -z $sub ]]; then
			sub=$word
			help=$(_forge_help "$command" "$sub")
		else
			((args++))
		fi
	done

	case $value in
	'') ;;
	--scope) _forge_words task$'\n'session$'\n'project$'\n'user && return ;;
	--to) _forge_words session$'\n'project$'\n'user && return ;;
	--capability) _forge_list read$'\n'write$'\n'network$'\n'process && return ;;
	--toolset) _forge_words forge && return ;;
	--tool) _forge_tools && return ;;
	--home) _forge_files -d && return ;;
	--trust | --witness | --file | --key) _forge_files && return ;;
	*) return ;;
	esac

	if [[ $cur == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_forge_flags <<<"$help")" -- "$cur")
	elif [[ -n $subs && -z $sub ]]; then
		_forge_words "$subs"
	elif ((args == 0)); then
		case $command in
		forge-call | forge-list | forge-promote) _forge_tools ;;
		forge-forge) _forge_files -d ;;
		esac
	fi
}

complete -F _forge forge forge-audit forge-call forge-forge forge-list forge-mcp forge-promote
