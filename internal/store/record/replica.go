package record

import "fleet/internal/fleet"

// SelectReplicas is the query for all servers that are not forgotten, ordered by name. ScanReplica reads its rows.
const SelectReplicas = `SELECT name, machine, address, version, started_at, heard_at, stopped FROM replicas WHERE NOT forgotten ORDER BY name`

// ScanReplica returns the server of a row of SelectReplicas.
func ScanReplica(row Scanner) (fleet.Replica, error) {
	var r fleet.Replica
	err := row.Scan(&r.Name, &r.Machine, &r.Address, &r.Version, (*TimeColumn)(&r.StartedAt), (*TimeColumn)(&r.HeartbeatAt), &r.Stopped)
	return r, err
}
