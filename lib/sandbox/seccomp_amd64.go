package sandbox

import "embed"

const filterArch = "amd64"

//go:embed filters/amd64*.bpf
var filterFiles embed.FS
