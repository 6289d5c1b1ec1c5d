package worktree

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"fleet/internal/place/agentfile"
)

// known is what Fleet knows of the refs in an agent's git directory. It lies beside that, where the agent cannot write.
type known struct {
	// Given are the refs that came from the repository, with the values that they came with.
	Given map[string]string `json:"given"`
	// Published are the agent's branches that the repository has.
	Published map[string]published `json:"published"`
}

// published is a branch of an agent in the repository.
type published struct {
	Name string `json:"name"` // in the repository
	OID  string `json:"oid"`
}

// maxKnown is the longest file with what is known, in bytes.
const maxKnown = 256 << 20

func (t Tree) knownFile() string { return t.GitDir + ".json" }

// known reads what is known; nothing if there is no file.
func (t Tree) known() (*known, error) {
	k := &known{}
	b, err := agentfile.Read(t.knownFile(), maxKnown)
	if err == nil {
		err = json.Unmarshal(b, k)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if k.Given == nil {
		k.Given = map[string]string{}
	}
	if k.Published == nil {
		k.Published = map[string]published{}
	}
	return k, err
}

// learn writes what is known.
func (t Tree) learn(k *known) error {
	b, err := json.Marshal(k)
	if err == nil {
		err = os.WriteFile(t.knownFile()+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(t.knownFile()+".new", t.knownFile())
	}
	return err
}
