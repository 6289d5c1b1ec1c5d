package claude

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"fleet/internal/scratch"
)

// setTrust records in Claude Code's own file whether the user trusts the directory. Claude Code follows permissions.allow in
// the settings of a repository only if it is trusted. This process has no more rights than Claude Code, so it does no harm if
// the agent has replaced the file with a link.
func setTrust(dir string, trusted bool) error {
	home := cmp.Or(os.Getenv("CLAUDE_CONFIG_DIR"), os.Getenv("HOME"))
	if home == "" {
		return errors.New("cannot record whether the repository is trusted: HOME is not set")
	}
	path := filepath.Join(home, ".claude.json")
	state, projects, project := map[string]json.RawMessage{}, map[string]json.RawMessage{}, map[string]json.RawMessage{}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case json.Unmarshal(data, &state) != nil:
		state = map[string]json.RawMessage{} // Claude Code begins anew too
	}
	_ = json.Unmarshal(state["projects"], &projects) // what is not an object is replaced
	_ = json.Unmarshal(projects[dir], &project)
	if projects == nil { // null
		projects = map[string]json.RawMessage{}
	}
	if project == nil {
		project = map[string]json.RawMessage{}
	}
	project["hasTrustDialogAccepted"] = json.RawMessage(fmt.Sprint(trusted))
	if projects[dir], err = json.Marshal(project); err != nil {
		return err
	}
	if state == nil {
		state = map[string]json.RawMessage{}
	}
	if state["projects"], err = json.Marshal(projects); err != nil {
		return err
	}
	if data, err = json.MarshalIndent(state, "", "  "); err != nil {
		return err
	}
	return scratch.WriteFile(path, data)
}
