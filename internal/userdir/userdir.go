// Package userdir returns the directories that Fleet uses for the user who runs this process.
//
// Packages app and face/cli call it. It must never guess a directory: without a home directory, the XDG library would use
// directories of the whole system, such as /.local/share.
package userdir

import (
	"path/filepath"
	"strings"

	"github.com/adrg/xdg"
)

// Data returns the directory for data. It returns "" if the directory is unknown because HOME is not set.
func Data() string { return below(xdg.Home, xdg.DataHome) }

// Config returns the directory for configuration. It returns "" if the directory is unknown because HOME is not set.
func Config() string { return below(xdg.Home, xdg.ConfigHome) }

// below returns Fleet's directory in base. It returns "" if base is relative, or if it is a default in the home directory and
// home is /, which stands for an unknown home directory.
func below(home, base string) string {
	if !filepath.IsAbs(base) || home == "/" && strings.HasPrefix(base, "/.") {
		return ""
	}
	return filepath.Join(base, "fleet")
}
