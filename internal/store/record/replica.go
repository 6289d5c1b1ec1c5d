package record

import (
	"encoding/json"

	"fleet/internal/fleet"
)

// Demand returns the demand of a server as it is stored, see fleet.Replica: as JSON, or nil, which means NULL, for none.
func Demand(of map[string]float64) any {
	if len(of) == 0 {
		return nil
	}
	b, _ := json.Marshal(of) // finite numbers can always be encoded
	return string(b)
}

// SelectReplicas is the query for all servers that are not forgotten, ordered by name. ScanReplica reads its rows.
const SelectReplicas = `SELECT name, machine, address, version, started_at, heard_at, stopped, demand FROM replicas WHERE NOT forgotten ORDER BY name`

// ScanReplica returns the server of a row of SelectReplicas.
func ScanReplica(row Scanner) (fleet.Replica, error) {
	var r fleet.Replica
	err := row.Scan(&r.Name, &r.Machine, &r.Address, &r.Version, (*Time)(&r.StartedAt), (*Time)(&r.HeardAt), &r.Stopped, jsonInto{&r.Demand})
	return r, err
}
