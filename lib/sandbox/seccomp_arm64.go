package sandbox

import "embed"

const filterArch = "arm64"

//go:embed filters/arm64*.bpf
var filterFiles embed.FS
