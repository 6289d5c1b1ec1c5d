package worktree

import (
	"encoding/json"
	"errors"
	"io/fs"

	"fleet/internal/place/agentfile"
	"fleet/internal/scratch"
)

// refRecord records what Fleet knows about the refs in an agent's git directory. The file is next to that directory,
// where the agent cannot write.
type refRecord struct {
	// Published contains the branches of the agent that were published in the repository, by the agent's names for them. People may have
	// deleted them there. It comes first, so that readPublished reads only a part of the file.
	Published map[string]publishedBranch `json:"published"`
	// FromRepository has the refs that came from the repository, with their values.
	FromRepository map[string]string `json:"given"`
}

// publishedBranch is a branch of an agent in the repository.
type publishedBranch struct {
	Name string `json:"name"` // the branch's name in the repository
	OID  string `json:"oid"`
}

// maxRecord limits the size of the record's file, in bytes.
const maxRecord = 256 << 20

func (t Tree) recordPath() string { return t.GitDir + ".json" }

// readRecord reads the record. It returns an empty record if the file does not exist.
func (t Tree) readRecord() (*refRecord, error) {
	record := &refRecord{}
	b, err := agentfile.Read(t.recordPath(), maxRecord)
	if err == nil {
		err = json.Unmarshal(b, record)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if record.FromRepository == nil {
		record.FromRepository = map[string]string{}
	}
	if record.Published == nil {
		record.Published = map[string]publishedBranch{}
	}
	return record, err
}

// writeRecord writes the record atomically.
func (t Tree) writeRecord(record *refRecord) error {
	b, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return scratch.WriteFile(t.recordPath(), b)
}

// readPublished reads only the field Published of the record. It returns nil if the file does not exist or cannot be read.
func (t Tree) readPublished() map[string]publishedBranch {
	f, err := agentfile.Open(t.recordPath())
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	d := json.NewDecoder(f)
	for _, want := range []json.Token{json.Delim('{'), "published"} {
		if token, err := d.Token(); err != nil || token != want {
			return nil
		}
	}
	var all map[string]publishedBranch
	if err := d.Decode(&all); err != nil {
		return nil
	}
	return all
}
