package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/place/agentfile"
	"fleet/internal/runner/shim"
)

// record is the content of agent.json in the agent's home.
type record struct {
	UID       string    `json:"uid"`
	Name      string    `json:"name"`
	Owner     string    `json:"owner"`
	Project   string    `json:"project"`
	Role      string    `json:"role"`
	Spec      string    `json:"spec"`
	CreatedAt time.Time `json:"created_at"`

	ModelConfig *fleet.AgentConfig `json:"config,omitempty"` // the configuration of an agent on a model; nil: the agent is not on a model

	Dir            string `json:"dir,omitempty"`        // where the agent works; empty: in its own directory
	WorksInResults bool   `json:"results,omitempty"`    // Dir was returned by Place.resultsDir
	Repository     string `json:"repository,omitempty"` // the repository of the worktree; empty: no repository
	Branch         string `json:"branch,omitempty"`     // the branch on which the agent starts to work
	Ready          bool   `json:"ready"`                // provisioning is complete
	// Failure says why provisioning has failed. It is empty while provisioning is under way, and stays empty if the server crashes
	// during that time.
	Failure string `json:"failed,omitempty"`

	Deleting    bool   `json:"deleting,omitempty"` // a deletion has decided what to keep
	KeptOutside string `json:"kept,omitempty"`     // for people: the work that is kept outside the home, in the repository or the results
	// Unsaved describes, for people, the work that may exist only in the home. A deletion keeps the home if Unsaved is not empty.
	Unsaved  string    `json:"unsaved,omitempty"`
	Branches []string  `json:"branches,omitempty"` // the agent's branches with commits of their own, which a deletion keeps
	KeptAt   time.Time `json:"kept_at,omitzero"`   // when the home was last kept, even if it was restored later
	KeptSize int64     `json:"size,omitempty"`     // of the kept home, in bytes
}

// isOnModel reports whether the record is of an agent on a model. r may be nil.
func (r *record) isOnModel() bool { return r != nil && r.ModelConfig != nil }

func (r *record) isNotOnModel() bool { return !r.isOnModel() }

// record reads the agent's record. It returns nil if the record does not exist.
func (h home) record() (*record, error) {
	b, err := agentfile.Read(h.join("agent.json"), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", h.join("agent.json"), err)
	}
	return &r, nil
}

func (h home) writeRecord(r *record) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return shim.WriteFile(h.join("agent.json"), append(b, '\n'))
}
