# Whether the controller of this pod answers by its Unix socket: as the one that leads, or as one that does not.
# alive.sh WORDS: as one that leads, or that says these words of who does.
# Kubelets have no certificate, so they can't ask by HTTP.
said=$(watermaster order list 2>&1) && exit 0
case $said in
*"leader: ${1-}"*) exit 0 ;;
esac
echo "$said" >&2
exit 1
