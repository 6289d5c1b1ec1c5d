package runner

import (
	"context"

	"fleet/internal/fleet"
	"fleet/internal/runner/filetree"
	"fleet/internal/runner/sandbox"
)

// WriteHomeFiles writes the files into the home directory of an agent. It returns PROVISIONING_FAILED if the agent has replaced a
// part of the home that is needed, for example with a link that leads out of it.
func WriteHomeFiles(ctx context.Context, home string, files filetree.HomeFiles) error {
	files.Dir = home
	obstacle, err := sandbox.WriteHomeFiles(ctx, files)
	switch {
	case err != nil:
		return HostError("cannot create the agent's own directory", err)
	case obstacle != "":
		return fleet.Errorf(fleet.ReasonProvisioningFailed, "the agent has replaced %s in its home: remove it, or delete the agent", obstacle)
	}
	return nil
}
