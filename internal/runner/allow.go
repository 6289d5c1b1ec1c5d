package runner

import (
	"context"
	"encoding/json"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/shim"
)

// Allow implements fleet.Allower. Agents on models read the file before each request.
func (a Agent) Allow(ctx context.Context, r fleet.Run) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := json.Marshal(r.Allowance)
	if err == nil {
		err = shim.WriteFile(a.home.run(r.TaskID).Path(driver.AllowanceFile), data)
	}
	if err != nil && !isMissing(err) {
		return HostError("cannot write what the run may use", err)
	}
	return nil
}
