# shellcheck shell=sh disable=SC2034  # its readers use what it sets
# What to record, and where. prolog.sh, epilog.sh and deliver.sh read this file.

# The address and the key, which only SlurmUser may read: ett.curl.example shows it.
ETT_CURL=/etc/slurm/ett/ett.curl

# Events lie here until the service has them. SlurmUser must be able to write.
ETT_SPOOL=/var/spool/ett-slurm

# Print the name under which to record a Slurm job; nothing: it is not recorded.
# $1: its name, $2: its task of a job array, else empty, $3: its partition.
# In the job's own script, ETT_JOB must hold the same name for a trainer that records itself.
job_of() {
    echo "$1${2:+-$2}"
}

# Print the accelerators of each of its nodes; nothing: unknown.
# $1: its partition.
gpus_per_node() {
    case $1 in
        gpu) echo 8 ;;
    esac
}

# Succeed if a Slurm job that ends well is only a part of its training. $1: the recorded name.
goes_on() {
    case $1 in
        *-part*) return 0 ;;
        *) return 1 ;;
    esac
}
