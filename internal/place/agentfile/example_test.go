package agentfile_test

import (
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"fleet/internal/place/agentfile"
)

// Fleet reads a file that an agent can write. The agent replaces the file with a symbolic link to a secret file that the agent
// cannot read itself. Fleet must not read the secret file for the agent.
func ExampleRead() {
	dir, err := os.MkdirTemp("", "agent")
	check(err)
	defer os.RemoveAll(dir)
	summary, secret := filepath.Join(dir, "summary"), filepath.Join(dir, "secret")
	check(os.WriteFile(secret, []byte("s3cret"), 0o600))

	check(os.WriteFile(summary, []byte("all well"), 0o600))
	b, err := agentfile.Read(summary, 1<<20)
	fmt.Printf("%q %v\n", b, err)

	check(os.Remove(summary))
	check(os.Symlink(secret, summary))
	b, err = agentfile.Read(summary, 1<<20)
	fmt.Printf("%q, replaced: %t\n", b, errors.Is(err, agentfile.ErrReplaced))
	// Output:
	// "all well" <nil>
	// "", replaced: true
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}
