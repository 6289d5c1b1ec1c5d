package app

import (
	"runtime/debug"
)

// version is set by the linker, see `make build`.
var version string

// Version returns the version of the program: the version that the linker set, else the version that Go recorded for
// the module or repository, else "devel".
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return devel
	}
	return versionOf(info)
}

const devel = "devel"

// versionOf returns the module's version. If there is none, it returns "devel-" with the start of the commit's hash, and
// adds "-dirty" if the work tree had changes. Without a commit, it returns "devel".
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	v, dirty := devel, ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v += "-" + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	return v + dirty
}
