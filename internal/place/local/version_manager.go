package local

import (
	"os"
	"path/filepath"
	"slices"
)

// versionManager is a program that chooses between installed versions of other programs. It looks for them below HOME. The HOME of
// a confined agent is not that of the server's user, so a variable says where the user's versions are.
type versionManager struct {
	variable string // names the variable with the directory of the versions
	dir      string // the default of the variable, relative to the user's home
	programs string // the directory on PATH with the programs of the manager, relative to the user's home
}

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

// versionsDir returns the directory of the versions that the user has installed. It returns "" if the directory does not exist, or if
// PATH lacks the programs of the manager.
func (p *Place) versionsDir(m versionManager) string {
	userHome, dir := p.serverVariable("HOME"), p.serverVariable(m.variable)
	if dir == "" && userHome != "" {
		dir = filepath.Join(userHome, m.dir)
	}
	onPath := slices.ContainsFunc(filepath.SplitList(p.serverVariable("PATH")), func(entry string) bool {
		return userHome != "" && filepath.Clean(entry) == filepath.Join(userHome, m.programs) || dir != "" && filepath.Clean(entry) == filepath.Join(dir, filepath.Base(m.programs))
	})
	if info, err := os.Stat(dir); !onPath || err != nil || !info.IsDir() || !filepath.IsAbs(dir) {
		return ""
	}
	return dir
}
