package claude

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"fleet/internal/scratch"
)

// jsonObject is a JSON object whose fields are not decoded, so that unknown fields keep their values.
type jsonObject = map[string]json.RawMessage

// setTrust records in Claude Code's state file whether the user trusts the directory. Claude Code follows permissions.allow in
// the settings of a directory only if the user trusts the directory.
func setTrust(dir string, trusted bool) error {
	return changeState(func(state jsonObject) error {
		projects := objectIn(state, "projects")
		project := objectIn(projects, dir)
		project["hasTrustDialogAccepted"] = json.RawMessage(fmt.Sprint(trusted))
		return errors.Join(setField(projects, dir, project), setField(state, "projects", projects))
	})
}

// answerFirstQuestions records in Claude Code's state file answers to the questions that Claude Code asks a new user on a terminal
// before anything else. They are about the colours, the login, and whether to use the key in the environment. Fleet's configuration
// decides about the login and the key.
func answerFirstQuestions() error {
	return changeState(func(state jsonObject) error {
		state["hasCompletedOnboarding"] = json.RawMessage("true")
		key := os.Getenv("ANTHROPIC_API_KEY")
		if key == "" {
			return nil
		}
		const suffixLen = 20 // Claude Code identifies a key by its last characters
		key = key[max(0, len(key)-suffixLen):]
		answers := objectIn(state, "customApiKeyResponses")
		var approved, rejected []string
		_ = json.Unmarshal(answers["approved"], &approved) // a value that is not a list is replaced
		_ = json.Unmarshal(answers["rejected"], &rejected)
		if slices.Contains(approved, key) || slices.Contains(rejected, key) {
			return nil
		}
		return errors.Join(setField(answers, "approved", append(approved, key)), setField(state, "customApiKeyResponses", answers))
	})
}

// changeState changes Claude Code's state file. This process has no more rights than Claude Code, so it does no harm if the agent has
// replaced the file with a link.
func changeState(change func(state jsonObject) error) error {
	home := cmp.Or(os.Getenv("CLAUDE_CONFIG_DIR"), os.Getenv("HOME"))
	if home == "" {
		return errors.New("cannot change Claude Code's state file: HOME is not set")
	}
	path := filepath.Join(home, ".claude.json")
	state := jsonObject{}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case json.Unmarshal(data, &state) != nil || state == nil: // null
		state = jsonObject{} // Claude Code begins anew too
	}
	if err := change(state); err != nil {
		return err
	}
	if data, err = json.MarshalIndent(state, "", "  "); err != nil {
		return err
	}
	return scratch.WriteFile(path, data)
}

// objectIn returns the object in the field, or an empty object if the field does not contain one.
func objectIn(of jsonObject, name string) jsonObject {
	object := jsonObject{}
	if json.Unmarshal(of[name], &object) != nil || object == nil {
		return jsonObject{}
	}
	return object
}

// setField sets the field to the JSON form of the value.
func setField(in jsonObject, name string, value any) (err error) {
	in[name], err = json.Marshal(value)
	return err
}
