//go:build !amd64 && !arm64

package sandbox

import "embed"

const filterArch = "none"

var filterFiles embed.FS
