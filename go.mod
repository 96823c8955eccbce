module forge

go 1.26

require (
	github.com/BurntSushi/toml v1.6.0
	golang.org/x/sys v0.50.0
)
