#compdef forge forge-audit forge-call forge-forge forge-list forge-mcp forge-promote
# zsh completion for Forge: forge, and each forge-* command.
#
# It is installed as site-functions/_forge, or sourced after compinit. Flags and
# subcommands come from --help, tools from forge-list: nothing here repeats them.

# _forge_describe reads a help and prints NAME:WHAT for each flag, or for each
# command with the argument COMMANDS.
_forge_describe() {
	awk -v part="${1:-OPTIONS}" '
		/^[A-Z ]+:$/ { inside = index($0, part ":") > 0; next }
		!inside || !/^   [^ ]/ { next }
		{
			line = substr($0, 4)
			at = match(line, /  +/)
			names = at ? substr(line, 1, at - 1) : line
			what = at ? substr(line, at + RLENGTH) : ""
			gsub(/:/, "\\:", what)
			n = split(names, words, /[ ,[]+/)
			for (i = 1; i <= n; i++)
				if ((part == "COMMANDS" || words[i] ~ /^--?[a-z]/) && !seen[words[i]]++)
					print words[i] ":" what
		}'
}

# _forge_value COMMAND... FLAG succeeds if the flag takes a value: a word stands
# after its name.
_forge_takes() {
	sed -n '/OPTIONS:$/,$ s/^   \(-.*\)/\1/p' | sed 's/  .*//' | grep -qE -- "(^|, )$1 [^-]"
}

# _forge_tools offers the tools in sight.
_forge_tools() {
	local -a found
	found=("${(@f)$(command forge-list --plain 2>/dev/null </dev/null |
		awk -F '\t' '{ gsub(/:/, "\\:", $5); print $1 ":" $5 }')}")
	found=(${found:#})
	_describe tool found
}

_forge() {
	local command=${words[1]:t} value='' sub='' help word
	local -i i=2 args=0
	local -a found subs

	# forge NAME is forge-NAME, and forge help NAME tells of it.
	if [[ $command == forge ]]; then
		if (( CURRENT == 2 )) && [[ $PREFIX == -* ]]; then
			found=("${(@f)$(command forge --help 2>/dev/null </dev/null | _forge_describe)}")
			_describe option found
			return
		fi
		found=("${(@f)$(command forge 2>/dev/null </dev/null | sed -n 's/^forge \([a-z]*\)  *\(.*\)/\1:\2/p')}")
		if (( CURRENT == 2 )); then
			found+=('help:help with a command')
			_describe command found
			return
		elif [[ ${words[2]} == help ]]; then
			(( CURRENT == 3 )) && _describe command found
			return
		fi
		command=forge-${words[2]}
		i=3
	fi
	(( $+commands[$command] )) || return 1
	help=$(command $command --help 2>/dev/null </dev/null)
	subs=("${(@f)$(_forge_describe COMMANDS <<<$help)}")
	subs=(${subs:#})

	# The subcommand, and how many arguments stand before the cursor.
	for (( ; i < CURRENT; i++ )); do
		word=${words[i]}
		if [[ -n $value ]]; then
			value=
		elif [[ $word == -*=* ]]; then
			continue
		elif [[ $word == -* ]]; then
			_forge_takes $word <<<$help && value=$word
		elif (( $#subs )) && [[ -z $sub ]]; then
			sub=$word
			help=$(command $command $sub --help 2>/dev/null </dev/null)
		else
			(( args++ ))
		fi
	done
	if [[ -z $value && $PREFIX == --*=* ]]; then
		value=${PREFIX%%=*}
		compset -P '*='
	fi

	case $value in
	'') ;;
	--scope) _values scope task session project user; return ;;
	--to) _values scope session project user; return ;;
	--capability) _values -s , capability read write network process; return ;;
	--toolset) _values toolset forge; return ;;
	--tool) _forge_tools; return ;;
	--home) _files -/; return ;;
	--trust|--witness|--file|--key) _files; return ;;
	*) _message "${value#--}"; return ;;
	esac

	if [[ $PREFIX == -* ]]; then
		found=("${(@f)$(_forge_describe <<<$help)}")
		_describe option found
	elif (( $#subs )) && [[ -z $sub ]]; then
		_describe command subs
	elif (( args == 0 )); then
		case $command in
		forge-call | forge-list | forge-promote) _forge_tools ;;
		forge-forge) _files -/ ;;
		esac
	fi
}

if [[ $funcstack[1] == _forge ]]; then
	_forge "$@"
else
	compdef _forge forge forge-audit forge-call forge-forge forge-list forge-mcp forge-promote
fi
