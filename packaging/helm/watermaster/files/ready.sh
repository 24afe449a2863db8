# Whether the controller of this pod is ready. First it is told (SIGHUP) to read its configuration and certificates again
# where the kubelet has written others, which is where a volume has another folder ..YEAR_MONTH_…. It is process 1 of its
# container; CONTROLLER names another.
seen=/run/watermaster-controller/seen
now=$(echo /etc/watermaster/*/..2*)
before=
[ ! -e "$seen" ] || IFS= read -r before <"$seen"
[ "$now" = "$before" ] || { kill -HUP "${CONTROLLER:-1}" && echo "$now" >"$seen"; }
# One that follows is ready too.
exec /bin/sh "${0%/*}/alive.sh" "this controller follows"
