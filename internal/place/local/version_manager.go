package local

import (
	"os"
	"path/filepath"
	"slices"
)

// versionManager is a program that chooses between installed versions of other programs. It looks for them below the home
// directory. The agent's home is not the user's, so a variable says where the user's versions are.
type versionManager struct{ variable, dir, programs string } // the paths are relative to the user's home

var versionManagers = []versionManager{
	{"RUSTUP_HOME", ".rustup", ".cargo/bin"},
	{"PYENV_ROOT", ".pyenv", ".pyenv/shims"},
	{"RBENV_ROOT", ".rbenv", ".rbenv/shims"},
	{"NODENV_ROOT", ".nodenv", ".nodenv/shims"},
	{"GOENV_ROOT", ".goenv", ".goenv/shims"},
	{"ASDF_DATA_DIR", ".asdf", ".asdf/shims"},
	{"MISE_DATA_DIR", ".local/share/mise", ".local/share/mise/shims"},
	{"VOLTA_HOME", ".volta", ".volta/bin"},
}

// managedDir returns the directory of the user's versions if PATH has the programs of the manager, or "".
func (p *Place) managedDir(m versionManager) string {
	home, dir := p.serverVariable("HOME"), p.serverVariable(m.variable)
	if dir == "" && home != "" {
		dir = filepath.Join(home, m.dir)
	}
	onPath := slices.ContainsFunc(filepath.SplitList(p.serverVariable("PATH")), func(entry string) bool {
		return home != "" && filepath.Clean(entry) == filepath.Join(home, m.programs) || dir != "" && filepath.Clean(entry) == filepath.Join(dir, filepath.Base(m.programs))
	})
	if info, err := os.Stat(dir); !onPath || err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}
