package runner

import (
	"context"
	"encoding/json"

	"fleet/internal/fleet"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/shim"
)

// SetAllowance implements fleet.AllowanceSetter. It writes the allowance to a file of the run, which agents on models read before
// each request.
func (a Agent) SetAllowance(ctx context.Context, r fleet.Run) error {
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
