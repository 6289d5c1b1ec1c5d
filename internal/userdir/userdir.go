// Package userdir finds Fleet's directories of the user who runs this process.
//
// Packages app and face/cli call it. It must never guess a directory: without a home directory, the XDG library would use
// directories of the whole system, such as /.local/share.
package userdir

import (
	"path/filepath"
	"strings"

	"github.com/adrg/xdg"
)

// Data returns the directory for data, or "" if it is unknown, because HOME is not set.
func Data() string { return below(xdg.Home, xdg.DataHome) }

// Config returns the directory for configuration, or "" if it is unknown, because HOME is not set.
func Config() string { return below(xdg.Home, xdg.ConfigHome) }

// below returns Fleet's directory in base. It returns "" if base is a default below /, because the user's home directory is
// unknown.
func below(home, base string) string {
	if !filepath.IsAbs(base) || home == "/" && strings.HasPrefix(base, "/.") {
		return ""
	}
	return filepath.Join(base, "fleet")
}
